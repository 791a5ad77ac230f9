/* error: ignoring return value of 'troupe_shutdown_add' */
/* SPDX-License-Identifier: MIT */
#include "../job.h"

void f(troupe_system *system, troupe_shutdown_fn fn);

void
f(troupe_system *system, troupe_shutdown_fn fn)
{
    troupe_shutdown_add(system, TROUPE_PHASE_STOP, "task", fn, NULL);
}
