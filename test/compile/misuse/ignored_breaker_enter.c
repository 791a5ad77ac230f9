/* error: ignoring return value of 'troupe_breaker_enter' */
/* SPDX-License-Identifier: MIT */
#include "../job.h"

void f(troupe_breaker *breaker, troupe_permit *permit);

void
f(troupe_breaker *breaker, troupe_permit *permit)
{
    troupe_breaker_enter(breaker, permit);
}
