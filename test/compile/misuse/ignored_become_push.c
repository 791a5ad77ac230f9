/* error: ignoring return value of 'troupe_become_push' */
/* SPDX-License-Identifier: MIT */
#include "../job.h"

void f(troupe_self *self, troupe_behaviour_fn next);

void
f(troupe_self *self, troupe_behaviour_fn next)
{
    troupe_become_push(self, next);
}
