/* error: incompatible type for argument 2 of 'troupe_delayed_cancel' */
/* SPDX-License-Identifier: MIT */
#include "../job.h"

bool f(troupe_system *system, troupe_ticket ticket);

bool
f(troupe_system *system, troupe_ticket ticket)
{
    return troupe_delayed_cancel(system, ticket);
}
