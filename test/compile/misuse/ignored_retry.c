/* error: ignoring return value of 'troupe_retry_wait' */
/* SPDX-License-Identifier: MIT */
#include "../job.h"

void f(const troupe_retry_options *options, troupe_attempt_wait_fn attempt);

void
f(const troupe_retry_options *options, troupe_attempt_wait_fn attempt)
{
    troupe_retry_wait(options, attempt, NULL, NULL);
}
