/* error: ignoring return value of 'troupe_ask' */
/* SPDX-License-Identifier: MIT */
#include "../job.h"

void f(troupe_self *self, troupe_ref whom, troupe_continuation then);

void
f(troupe_self *self, troupe_ref whom, troupe_continuation then)
{
    const job one = {1};

    troupe_ask(self, whom, &job_type, &one, 0, then, NULL);
}
