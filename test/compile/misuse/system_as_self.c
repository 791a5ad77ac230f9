/* error: passing argument 1 of 'troupe_tell' from incompatible pointer type */
/* SPDX-License-Identifier: MIT */
#include "../job.h"

void f(troupe_system *system, troupe_ref to, struct job *job);

void
f(troupe_system *system, troupe_ref to, struct job *job)
{
    troupe_tell(system, to, &job_type, job);
}
