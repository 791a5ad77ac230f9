/* error: implicit conversion from 'enum troupe_steal' to 'troupe_log_level' */
/* SPDX-License-Identifier: MIT */
#include "../job.h"

int
main(void)
{
    troupe_system_options options = TROUPE_INIT(troupe_system_options);

    options.log.max_level = TROUPE_STEAL_ON;
    return options.size == 0;
}
