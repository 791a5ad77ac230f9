/* SPDX-License-Identifier: MIT */
#ifndef TEST_SUPPORT_GROVE_H
#define TEST_SUPPORT_GROVE_H

/*
 * Trees of actors drawn from a seed, which fail, end, spawn, stop and tell each
 * other while they are told to, under supervision of every kind, with mailboxes
 * of every kind and policy, throttles, timers, receive timeouts, delayed
 * messages, stashes and asks. Each checks its own state: zeroed before start(),
 * its own afterwards, one at a time; that timers come when they are due and not
 * after they were cancelled; that what it asked ends once, and that who is
 * watched is told of once. What is wrong prints the seed and ends the process.
 *
 *   GROVE_LIVING  budgets without end and no stops: in the end everybody there
 *                 must handle a message, and nothing is left anywhere
 *   GROVE_MORTAL  small budgets, stops, ends; the system may stop by itself
 */

#include "support/seed.h"

#include <troupe/troupe.h>

enum grove_kind { GROVE_LIVING, GROVE_MORTAL };

struct grove;

/* Spawns the roots. The system may be driven, or run already. */
struct grove *grove_plant(
    troupe_system *system, uint64_t seed, enum grove_kind kind);
/* Any thread: so many messages, and stops if they are mortal. */
void grove_shake(struct grove *grove, struct test_rng *rng, uint32_t count);
/* One thread, which owns the port that is watched with. */
void grove_watch(struct grove *grove, struct test_rng *rng, uint32_t count);
/* Nobody waits for an answer, a pause or a child. Now; threads may run. */
bool grove_is_awake(const struct grove *grove);
/* From now on nothing is begun, and what comes again is let go. */
void grove_calm(struct grove *grove);
/* Nobody waits, and no timer, delayed message or ask is left. Now. */
bool grove_is_settled(struct grove *grove);
/*
 * Everybody gets one more message, when a calm grove has settled. After a while
 * all of them were handled, and all else: nobody is behind a stash, or misses a
 * notice.
 */
void grove_call_all(struct grove *grove);
bool grove_is_done(struct grove *grove);
void grove_check_all(struct grove *grove);
/*
 * The whole life of a grove in a simulation, but for the end of its system:
 * with all of the above, as it is due.
 */
void grove_live_driven(struct grove *grove, struct test_rng *rng);
/* Actors that began, first starts and restarts. */
uint64_t grove_starts(const struct grove *grove);
/* After troupe_system_stop(): all notices are there, each once. */
void grove_check_notices(struct grove *grove);
/* After that: nothing waits, and no operation is open. */
void grove_check_stopped(const struct grove *grove);
/* After troupe_system_destroy(). */
void grove_free(struct grove *grove);

#endif /* TEST_SUPPORT_GROVE_H */
