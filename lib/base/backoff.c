/* SPDX-License-Identifier: MIT */
#include "base/backoff.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/options.h"
#include "base/rng.h"

#define DEFAULT_JITTER 0.2

static troupe_status
check_numbers(const troupe_backoff *policy, const char *call)
{
    if ((uint32_t)policy->kind > TROUPE_BACKOFF_LINEAR) {
        return trp_refuse(TROUPE_E_INVALID, call, "backoff.kind",
            "must be TROUPE_BACKOFF_EXPONENTIAL or _LINEAR", "%d",
            (int)policy->kind);
    }
    if ((policy->flags & ~(uint32_t)TROUPE_BACKOFF_CLAMP_JITTER) != 0) {
        return trp_refuse(TROUPE_E_INVALID, call, "backoff.flags",
            "must be TROUPE_BACKOFF_*", "0x%x", policy->flags);
    }
    if (policy->max_ns == 0) {
        return trp_refuse(
            TROUPE_E_INVALID, call, "backoff.max_ns", "must be above 0", "0");
    }
    if (policy->min_ns > policy->max_ns) {
        return trp_refuse(TROUPE_E_INVALID, call, "backoff.min_ns",
            "must be at most max_ns", "%llu",
            (unsigned long long)policy->min_ns);
    }
    /* The comparisons are false for what is not a number. */
    if (!(policy->jitter >= 0 && policy->jitter <= 1) &&
        !(policy->jitter >= TROUPE_JITTER_NONE &&
            policy->jitter <= TROUPE_JITTER_NONE)) {
        return trp_refuse(TROUPE_E_INVALID, call, "backoff.jitter",
            "must be between 0 and 1, or TROUPE_JITTER_NONE", "%g",
            policy->jitter);
    }
    return TROUPE_OK;
}

troupe_status
trp_backoff_copy(
    troupe_backoff *copy, const troupe_backoff *given, const char *call)
{
    troupe_status status;

    if (given == NULL) {
        return trp_refuse(
            TROUPE_E_INVALID, call, "backoff", "must not be NULL", "NULL");
    }
    status = trp_options_copy(copy, sizeof *copy, given, call);
    return status == TROUPE_OK ? check_numbers(copy, call) : status;
}

/* min * 2^attempt. */
static uint64_t
exponential(uint64_t min_ns, uint64_t attempt)
{
    if (min_ns == 0) {
        return 0;
    }
    return attempt >= 64 || min_ns > UINT64_MAX >> attempt ? UINT64_MAX
                                                           : min_ns << attempt;
}

/* min + step * attempt. */
static uint64_t
linear(uint64_t min_ns, uint64_t step_ns, uint64_t attempt)
{
    uint64_t sum;

    return __builtin_mul_overflow(step_ns, attempt, &sum) ||
                   __builtin_add_overflow(sum, min_ns, &sum)
               ? UINT64_MAX
               : sum;
}

static uint64_t
cut(uint64_t delay_ns, uint64_t max_ns)
{
    return delay_ns < max_ns ? delay_ns : max_ns;
}

/* In [0, 1). Foreign threads have no state: two of them differ in address. */
static double
draw(void)
{
    struct trp_rng fresh = {trp_clock_ns() ^ (uint64_t)(uintptr_t)&trp_thread};
    struct trp_rng *rng = trp_thread.rng != NULL ? trp_thread.rng : &fresh;

    return (double)(trp_rng_next(rng) >> 11) * 0x1p-53;
}

/* The nearest integer; the user's `random` may have said anything. */
static uint64_t
whole(double ns)
{
    if (!(ns > 0)) {
        return 0;
    }
    return ns < 0x1p64 ? (uint64_t)(ns + 0.5) : UINT64_MAX;
}

static uint64_t
spread(const troupe_backoff *policy, uint64_t base_ns)
{
    double factor = policy->jitter > 0 ? policy->jitter : DEFAULT_JITTER;
    double drawn =
        policy->random != NULL ? policy->random(policy->random_user) : draw();

    return whole((double)base_ns * (1 + (2 * drawn - 1) * factor));
}

uint64_t
trp_backoff_delay_ns(const troupe_backoff *policy, uint64_t attempt)
{
    uint64_t delay_ns;

    if (policy->delay != NULL) {
        delay_ns = policy->delay(attempt, policy->delay_user);
    } else if (policy->kind == TROUPE_BACKOFF_LINEAR) {
        delay_ns = linear(policy->min_ns, policy->step_ns, attempt);
    } else {
        delay_ns = exponential(policy->min_ns, attempt);
    }
    delay_ns = cut(delay_ns, policy->max_ns);
    if (policy->jitter >= 0) {
        delay_ns = spread(policy, delay_ns);
    }
    if ((policy->flags & TROUPE_BACKOFF_CLAMP_JITTER) != 0) {
        delay_ns = cut(delay_ns, policy->max_ns);
        delay_ns = delay_ns > policy->min_ns ? delay_ns : policy->min_ns;
    }
    return delay_ns;
}

troupe_status
troupe_backoff_check(const troupe_backoff *policy)
{
    troupe_backoff copy;

    return trp_backoff_copy(&copy, policy, "troupe_backoff_check");
}

uint64_t
troupe_backoff_delay_ns(const troupe_backoff *policy, uint64_t attempt)
{
    troupe_backoff copy;

    return trp_backoff_copy(&copy, policy, "troupe_backoff_delay_ns") ==
                   TROUPE_OK
               ? trp_backoff_delay_ns(&copy, attempt)
               : 0;
}
