/* error: invalid use of incomplete typedef 'troupe_self' */
/* SPDX-License-Identifier: MIT */
#include "../job.h"

void f(const troupe_self *self);

void
f(const troupe_self *self)
{
    troupe_self copy = *self;

    (void)copy;
}
