/* error: ignoring return value of 'troupe_await' */
/* SPDX-License-Identifier: MIT */
#include "../job.h"

void f(troupe_self *self, troupe_ticket ticket);

void
f(troupe_self *self, troupe_ticket ticket)
{
    troupe_await(self, TROUPE_OK, &ticket);
}
