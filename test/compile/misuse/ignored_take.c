/* error: ignoring return value of 'troupe_take' */
/* SPDX-License-Identifier: MIT */
#include "../job.h"

void f(troupe_self *self, troupe_msg **msg);

void
f(troupe_self *self, troupe_msg **msg)
{
    troupe_take(self, msg);
}
