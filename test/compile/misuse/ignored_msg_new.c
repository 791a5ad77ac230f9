/* error: ignoring return value of 'troupe_msg_new' */
/* SPDX-License-Identifier: MIT */
#include "../job.h"

void f(troupe_system *system);

void
f(troupe_system *system)
{
    troupe_msg_new(system, &job_type, 0);
}
