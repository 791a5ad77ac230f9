/* error: ignoring return value of 'troupe_port_open' */
/* SPDX-License-Identifier: MIT */
#include "../job.h"

void f(troupe_system *system, troupe_port **port);

void
f(troupe_system *system, troupe_port **port)
{
    troupe_port_open(system, NULL, port);
}
