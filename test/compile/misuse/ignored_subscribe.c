/* error: ignoring return value of 'troupe_subscribe' */
/* SPDX-License-Identifier: MIT */
#include "../job.h"

void f(troupe_self *self);

void
f(troupe_self *self)
{
    troupe_subscribe(self, TROUPE_TAG_DEAD_LETTER, NULL, NULL);
}
