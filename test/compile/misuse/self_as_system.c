/* error: argument 1 of 'troupe_post_tell' from incompatible */
/* SPDX-License-Identifier: MIT */
#include "../job.h"

void f(troupe_self *self, troupe_ref to, struct job *job);

void
f(troupe_self *self, troupe_ref to, struct job *job)
{
    troupe_post_tell(self, to, &job_type, job);
}
