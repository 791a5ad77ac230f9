/* error: discards 'const' qualifier */
/* SPDX-License-Identifier: MIT */
#include "../job.h"

void f(const troupe_msg *msg);

void
f(const troupe_msg *msg)
{
    troupe_msg_free(msg);
}
