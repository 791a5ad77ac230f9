/* error: ignoring return value of 'troupe_system_stop' */
/* SPDX-License-Identifier: MIT */
#include "../job.h"

void f(troupe_system *system);

void
f(troupe_system *system)
{
    troupe_system_stop(system);
}
