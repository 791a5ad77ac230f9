/* error: incompatible pointer type */
/* SPDX-License-Identifier: MIT */
#include "../job.h"

static troupe_verdict
receive(troupe_self *self, struct job *state, const troupe_msg *msg)
{
    (void)self;
    (void)state;
    (void)msg;
    return TROUPE_CONTINUE;
}

static const troupe_actor_type type = {.size = sizeof(troupe_actor_type),
    .receive = receive};

int
main(void)
{
    return type.size == 0;
}
