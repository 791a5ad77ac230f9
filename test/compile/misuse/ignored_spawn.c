/* error: ignoring return value of 'troupe_spawn' */
/* SPDX-License-Identifier: MIT */
#include "../job.h"

void f(troupe_self *self, const troupe_actor_type *type, troupe_ref *ref);

void
f(troupe_self *self, const troupe_actor_type *type, troupe_ref *ref)
{
    troupe_spawn(self, type, NULL, ref);
}
