/* error: assignment of member 'n' in read-only object */
/* SPDX-License-Identifier: MIT */
#include "../job.h"

void f(const troupe_msg *msg);

void
f(const troupe_msg *msg)
{
    troupe_payload(msg, struct job)->n = 1;
}
