/* error: incompatible type for argument 2 of 'troupe_tell' */
/* SPDX-License-Identifier: MIT */
#include "../job.h"

void f(troupe_self *self, troupe_port *port, struct job *job);

void
f(troupe_self *self, troupe_port *port, struct job *job)
{
    troupe_tell(self, port, &job_type, job);
}
