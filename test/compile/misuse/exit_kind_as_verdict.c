/* error: from 'enum troupe_exit_kind' to 'troupe_verdict' */
/* SPDX-License-Identifier: MIT */
#include "../job.h"

troupe_verdict f(void);

troupe_verdict
f(void)
{
    return TROUPE_EXIT_DONE;
}
