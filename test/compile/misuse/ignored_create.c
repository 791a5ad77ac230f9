/* error: ignoring return value of 'troupe_system_create' */
/* SPDX-License-Identifier: MIT */
#include "../job.h"

void f(troupe_system **system);

void
f(troupe_system **system)
{
    troupe_system_create(NULL, system);
}
