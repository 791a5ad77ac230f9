/* error: ignoring return value of 'troupe_gather' */
/* SPDX-License-Identifier: MIT */
#include "../job.h"

void f(troupe_self *self, troupe_ref whom, troupe_continuation then);

void
f(troupe_self *self, troupe_ref whom, troupe_continuation then)
{
    const job one = {1};

    troupe_gather(self, &whom, 1, &job_type, &one, NULL, then, NULL);
}
