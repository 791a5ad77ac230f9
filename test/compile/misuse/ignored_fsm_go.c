/* error: ignoring return value of 'troupe_fsm_go' */
/* SPDX-License-Identifier: MIT */
#include "../job.h"

void f(troupe_self *self, troupe_fsm *fsm);

void
f(troupe_self *self, troupe_fsm *fsm)
{
    troupe_fsm_go(self, fsm, 1);
}
