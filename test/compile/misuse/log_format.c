/* error: format '%d' expects argument of type 'int' */
/* SPDX-License-Identifier: MIT */
#include "../job.h"

void f(troupe_self *self);

void
f(troupe_self *self)
{
    troupe_log(self, TROUPE_LOG_INFO, "%d", "x");
}
