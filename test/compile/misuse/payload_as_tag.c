/* error: makes pointer from integer without a cast */
/* SPDX-License-Identifier: MIT */
#include "../job.h"

void f(troupe_self *self, troupe_ref to, struct job *job);

void
f(troupe_self *self, troupe_ref to, struct job *job)
{
    troupe_tell(self, to, 1, job);
}
