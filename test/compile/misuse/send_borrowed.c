/* error: discards 'const' qualifier */
/* SPDX-License-Identifier: MIT */
#include "../job.h"

troupe_status f(troupe_self *self, troupe_ref to, const troupe_msg *msg);

troupe_status
f(troupe_self *self, troupe_ref to, const troupe_msg *msg)
{
    return troupe_send_msg(self, to, msg);
}
