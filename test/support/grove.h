/* SPDX-License-Identifier: MIT */
#ifndef TEST_SUPPORT_GROVE_H
#define TEST_SUPPORT_GROVE_H

/*
 * Trees of actors drawn from a seed, which fail, end, spawn, stop and tell each
 * other while they are told to, under supervision of every kind. Each checks
 * its own state: zeroed before start(), its own afterwards, one at a time. What
 * is wrong prints the seed and ends the process.
 *
 *   GROVE_LIVING  budgets without end and no stops: in the end everybody there
 *                 must handle a message
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
/* Everybody gets one more message. After a while all of them were handled. */
void grove_call_all(struct grove *grove);
void grove_check_all(const struct grove *grove);
/* Actors that began, first starts and restarts. */
uint64_t grove_starts(const struct grove *grove);
/* After troupe_system_stop(): all notices are there, each once. */
void grove_check_notices(struct grove *grove);
/* After troupe_system_destroy(). */
void grove_free(struct grove *grove);

#endif /* TEST_SUPPORT_GROVE_H */
