/* error: invalid conversion from */
/* SPDX-License-Identifier: MIT */
#include "../job.h"

static troupe_verdict
receive(troupe_self *, void *, const troupe_msg *)
{
    throw 1;
}

troupe_actor_type type();

troupe_actor_type
type()
{
    troupe_actor_type type = TROUPE_INIT(troupe_actor_type);

    type.receive = receive;
    return type;
}
