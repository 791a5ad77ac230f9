/* error: ignoring return value of 'troupe_lookup' */
/* SPDX-License-Identifier: MIT */
#include "../job.h"

void f(troupe_system *system, troupe_ref *ref);

void
f(troupe_system *system, troupe_ref *ref)
{
    troupe_lookup(system, "/user/a", ref);
}
