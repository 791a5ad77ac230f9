/* SPDX-License-Identifier: MIT */
#include "pattern/retry.h"

#include "base/backoff.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/options.h"
#include "os/futex.h"

troupe_status
trp_retry_copy(troupe_retry_options *copy, troupe_backoff *backoff,
    const troupe_retry_options *given, const char *call)
{
    troupe_status status = trp_options_copy(copy, sizeof *copy, given, call);

    if (status != TROUPE_OK) {
        return status;
    }
    if (copy->attempts == 0) {
        return trp_refuse(
            TROUPE_E_INVALID, call, "attempts", "must be at least 1", "0");
    }
    if (copy->reserved != 0) {
        return trp_refuse(TROUPE_E_INVALID, call, "reserved", "must be 0", "%u",
            copy->reserved);
    }
    if (copy->backoff != NULL) {
        status = trp_backoff_copy(backoff, copy->backoff, call);
        copy->backoff = backoff;
    }
    return status;
}

troupe_status
trp_retry_run(const troupe_retry_options *options,
    const struct trp_retry_time *time, troupe_attempt_wait_fn attempt,
    void *user, int32_t *code)
{
    uint64_t end_ns =
        options->deadline_ns == 0
            ? UINT64_MAX
            : trp_clock_after(time->now_ns(time->user), options->deadline_ns);

    for (uint32_t number = 1;; number++) {
        int32_t answer = attempt(number, user);
        uint64_t pause_ns = 0;
        uint64_t now_ns;
        uint64_t due_ns;

        if (code != NULL) {
            *code = answer;
        }
        if (answer == 0) {
            return TROUPE_OK;
        }
        if (options->attempted != NULL) {
            options->attempted(number, TROUPE_E_FAILED, answer, options->user);
        }
        if (number == options->attempts) {
            return TROUPE_E_FAILED;
        }
        if (options->backoff != NULL) {
            pause_ns = trp_backoff_delay_ns(options->backoff, number - 1);
        }
        now_ns = time->now_ns(time->user);
        due_ns = trp_clock_after(now_ns, pause_ns);
        if (due_ns >= end_ns && end_ns != UINT64_MAX) {
            return TROUPE_E_TIMEOUT;
        }
        if (options->should_retry != NULL &&
            !options->should_retry(
                number, TROUPE_E_FAILED, answer, options->user)) {
            return TROUPE_E_FAILED;
        }
        if (pause_ns > 0) {
            time->sleep_until(due_ns, time->user);
        }
    }
}

static uint64_t
real_now(void *user)
{
    (void)user;
    return trp_clock_ns();
}

static void
really_sleep(uint64_t due_ns, void *user)
{
    TRP_ATOMIC(uint32_t) never = 0;

    (void)user;
    while (trp_futex_wait(&never, 0, due_ns)) {
    }
}

troupe_status
troupe_retry_wait(const troupe_retry_options *given,
    troupe_attempt_wait_fn attempt, void *user, int32_t *code)
{
    static const char call[] = "troupe_retry_wait";
    static const struct trp_retry_time real = {
        .now_ns = real_now, .sleep_until = really_sleep};
    troupe_retry_options options;
    troupe_backoff backoff;
    troupe_status status = trp_retry_copy(&options, &backoff, given, call);

    if (status == TROUPE_OK && attempt == NULL) {
        status = trp_refuse(
            TROUPE_E_INVALID, call, "attempt", "must not be NULL", "NULL");
    }
    if (status == TROUPE_OK && trp_thread.worker != NULL) {
        status = trp_refuse(TROUPE_E_CONTEXT, call, "thread",
            "must not be inside a behaviour", "%s", "worker");
    }
    return status == TROUPE_OK
               ? trp_retry_run(&options, &real, attempt, user, code)
               : status;
}
