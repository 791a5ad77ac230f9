/* error: implicit conversion from 'enum troupe_directive' */
/* SPDX-License-Identifier: MIT */
#include "../job.h"

troupe_verdict f(void);

troupe_verdict
f(void)
{
    return TROUPE_DIRECTIVE_STOP;
}
