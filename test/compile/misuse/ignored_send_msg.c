/* error: ignoring return value of 'troupe_send_msg' */
/* SPDX-License-Identifier: MIT */
#include "../job.h"

void f(troupe_self *self, troupe_ref to, troupe_msg *msg);

void
f(troupe_self *self, troupe_ref to, troupe_msg *msg)
{
    (void)troupe_send_msg(self, to, msg);
}
