/* error: ignoring return value of 'troupe_send' */
/* SPDX-License-Identifier: MIT */
#include "../job.h"

void f(troupe_self *self, troupe_ref to, struct job *job);

void
f(troupe_self *self, troupe_ref to, struct job *job)
{
    troupe_send(self, to, &job_type, job);
}
