/* error: implicit conversion from 'troupe_status' to 'troupe_verdict' */
/* SPDX-License-Identifier: MIT */
#include "../job.h"

troupe_verdict f(troupe_self *self, troupe_behaviour_fn next);

troupe_verdict
f(troupe_self *self, troupe_behaviour_fn next)
{
    return troupe_become_push(self, next);
}
