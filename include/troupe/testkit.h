/* SPDX-License-Identifier: MIT */
#ifndef TROUPE_TESTKIT_H
#define TROUPE_TESTKIT_H

/* libtroupe-testkit: for test programs. Not in troupe.h. */

#include <troupe/actor.h>
#include <troupe/counters.h>
#include <troupe/driven.h>
#include <troupe/system.h>

TROUPE_BEGIN_DECLS

/*
 * A probe is an actor that keeps what it is sent until the test looks. In a
 * driven system expect() runs turns and moves the virtual clock instead of
 * waiting, so a test never sleeps. One thread uses a probe.
 */
typedef struct troupe_probe troupe_probe;

TROUPE_API TROUPE_NODISCARD troupe_status troupe_probe_open(
    troupe_system *system, const char *name, troupe_probe **probe);
TROUPE_API void troupe_probe_close(troupe_probe *probe);
TROUPE_API troupe_ref troupe_probe_ref(const troupe_probe *probe);

/* The next message, borrowed until the next call; NULL = none in time. */
TROUPE_API const troupe_msg *troupe_probe_next(
    troupe_probe *probe, uint64_t within_ns);
/* The next one with this tag; others are skipped. */
TROUPE_API const troupe_msg *troupe_probe_fish(
    troupe_probe *probe, troupe_tag tag, uint64_t within_ns);
TROUPE_API bool troupe_probe_silent(troupe_probe *probe, uint64_t for_ns);

/* With the probe as sender. */
TROUPE_API TROUPE_NODISCARD troupe_status troupe_probe_send(troupe_probe *probe,
    troupe_ref to, const troupe_msg_type *type, const void *payload);
TROUPE_API void troupe_probe_reply(
    troupe_probe *probe, const troupe_msg_type *type, const void *payload);
TROUPE_API TROUPE_NODISCARD troupe_status troupe_probe_watch(
    troupe_probe *probe, troupe_ref whom);

/*
 * Runs `test` in a fresh driven system for each seed, prints the seed of the
 * first run that returns false, ends it cleanly, and returns that seed; 0 =
 * none failed. TROUPE_SEED runs that seed alone. `options` may be NULL; its
 * flags and seed are replaced.
 */
typedef bool (*troupe_trial_fn)(
    troupe_system *system, void *user) TROUPE_NOEXCEPT;
TROUPE_API uint64_t troupe_trials(const troupe_system_options *options,
    uint64_t first_seed, uint32_t seeds, troupe_trial_fn test, void *user);

/*
 * sent = handled + dropped + dead + cancelled + refused + queued; says what is
 * off.
 */
TROUPE_API bool troupe_books_balance(troupe_system *system);

/*
 * The nth allocation from now fails, once; 0 = none. Counts every request for
 * memory, also growth of the reserved address space. Driven systems.
 */
TROUPE_API void troupe_fail_allocation(troupe_system *system, uint64_t nth);

TROUPE_END_DECLS

#endif /* TROUPE_TESTKIT_H */
