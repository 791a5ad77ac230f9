/* error: invalid conversion from */
/* SPDX-License-Identifier: MIT */
#include "../job.h"

static troupe_directive
decide(const troupe_exit *, uint32_t, void *)
{
    throw 1;
}

troupe_supervision supervision();

troupe_supervision
supervision()
{
    troupe_supervision supervision = TROUPE_INIT(troupe_supervision);

    supervision.decide = decide;
    return supervision;
}
