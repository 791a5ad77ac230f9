/* SPDX-License-Identifier: MIT */
#ifndef TRP_PATTERN_BREAKER_H
#define TRP_PATTERN_BREAKER_H

/*
 * A circuit breaker: whether calls go through, and what their outcomes change.
 *
 *               max_failures in a row                 time is up, one enters
 *     CLOSED -------------------------> OPEN ------------------------> PROBING
 *        ^                               ^                           |  |  |  ^
 *        |                               `-------- it failed --------'  |  |  |
 *        `---------------------------------------- it succeeded --------'  |  |
 *                          HALF_OPEN <------------ it did not count -------'  |
 *                              `--------------- one enters -------------------'
 *
 * PROBING and HALF_OPEN are one state to the user. force() goes anywhere but to
 * PROBING. Two words carry it all:
 *
 *     state     [ version 62 | kind 2 ]       written under the lock only
 *     failures  [ version 32 | count 32 ]     the same, and by leave() with CAS
 *
 * Each change makes a new version. A permit is the state that gave it, so
 * leave() sees by comparison whether it comes late.
 *
 * enter, leave   while the breaker is closed and calls succeed: loads and one
 *                relaxed addition, wait-free. A failure adds a CAS. An enter
 *                that is refused: loads and the clock, wait-free. Who changes
 *                the state takes the lock. Any thread.
 * state_now      one load. Wait-free; any thread.
 *
 * Invariants
 *   B1  state changes with the lock held, and its version rises by 1.
 *   B2  Permits are given out of CLOSED, any number, and at the change to
 *       PROBING, one. So one probe at a time is out, unless somebody forces
 *       another state, and no two probes have the same permit.
 *   B3  failures has the low half of the version of state, or of the next one
 *       while that is being made. The count is that of the failures in a row in
 *       this version, at most max_failures; whoever makes or sees it as many
 *       opens the breaker, if it still is in this version.
 *   B4  until_ns is written between two versions that are not both OPEN, and
 *       state before and after it. Who reads the same state on both sides of
 *       until_ns has read the time of that state.
 *   B5  Changes wait in `told` in the order of their versions; one thread at a
 *       time takes them out, and calls the listener without the lock.
 *
 * Pairs
 *   breaker.state   store of state -> load of it: failures and until_ns of this
 *                   version; what was done with the dependency before.
 *   breaker.until   store of until_ns -> load of it by who is refused: the
 *                   version before has been left (B4).
 *
 * Not promised: that the listener runs on the thread that made the change. A
 * CAS of failures could be fooled by 2^32 changes between two instructions.
 */

#include <troupe/breaker.h>

/* In the state and in permits; otherwise they are as in the public enum. */
#define TRP_BREAKER_PROBING 3u
#define TRP_BREAKER_VERSION UINT64_C(4)

/* For metrics: statistics, each of them right at a quiet moment. */
struct trp_breaker_counts {
    uint64_t succeeded;
    uint64_t failed;
    uint64_t uncounted;  /* failures that do not count */
    uint64_t late;       /* permits of an earlier state */
    uint64_t refused;    /* TROUPE_E_OPEN */
    uint64_t changes[3]; /* to each troupe_breaker_state */
};

void trp_breaker_read(
    const troupe_breaker *breaker, struct trp_breaker_counts *counts);
/* A call that did not take place, or whose outcome nobody will know. */
void trp_breaker_give_back(troupe_breaker *breaker, troupe_permit permit);
uint64_t trp_breaker_call_ns(const troupe_breaker *breaker);
const char *trp_breaker_name(const troupe_breaker *breaker);

#endif /* TRP_PATTERN_BREAKER_H */
