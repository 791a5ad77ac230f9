/* error: ignoring return value of 'troupe_dead_letters_replay' */
/* SPDX-License-Identifier: MIT */
#include "../job.h"

void f(troupe_system *system);

void
f(troupe_system *system)
{
    troupe_dead_letters_replay(system, 1, TROUPE_NONE);
}
