/* error: ignoring return value of 'troupe_post' */
/* SPDX-License-Identifier: MIT */
#include "../job.h"

void f(troupe_system *system, troupe_ref to, struct job *job);

void
f(troupe_system *system, troupe_ref to, struct job *job)
{
    troupe_post(system, to, &job_type, job);
}
