/* error: ignoring return value of 'troupe_unstash' */
/* SPDX-License-Identifier: MIT */
#include "../job.h"

void f(troupe_self *self);

void
f(troupe_self *self)
{
    troupe_unstash(self, 0);
}
