/* SPDX-License-Identifier: MIT */
#ifndef TROUPE_COUNTERS_H
#define TROUPE_COUNTERS_H

#include <troupe/types.h>

TROUPE_BEGIN_DECLS

/*
 * What the runtime counts anyway. Appended to, never reordered. At a quiet
 * moment: sent = handled + dropped + dead + cancelled + refused + queued.
 */
#define TROUPE_COUNTER_MAP(X)                                                  \
    X(sent, COUNTER, "attempts to send")                                       \
    X(refused, COUNTER, "sends that reported a failure")                       \
    X(handled, COUNTER, "messages a behaviour took care of")                   \
    X(dropped, COUNTER, "messages freed by a policy")                          \
    X(dead, COUNTER, "dead letters")                                           \
    X(queued, GAUGE, "messages in mailboxes and stashes")                      \
    X(actors, GAUGE, "live actors")                                            \
    X(started, COUNTER, "actors started")                                      \
    X(stopped, COUNTER, "actors stopped")                                      \
    X(turns, COUNTER, "times an actor got a worker")                           \
    X(runnable, GAUGE, "actors waiting for a worker")                          \
    X(injected, COUNTER, "cells handed in by foreign threads")                 \
    X(steals, COUNTER, "cells taken from another worker")                      \
    X(steal_misses, COUNTER, "victims found empty")                            \
    X(parks, COUNTER, "times a worker went to sleep")                          \
    X(wakes, COUNTER, "times a worker was woken")                              \
    X(bytes, GAUGE, "bytes held from the allocator")                           \
    X(dropped_new, COUNTER, "dropped: the arrival")                            \
    X(dropped_head, COUNTER, "dropped: one that waited")                       \
    X(dropped_throttle, COUNTER, "dropped: beyond the throttle")               \
    X(restarted, COUNTER, "times an actor got a new state")                    \
    X(cancelled, COUNTER, "notices, timers nobody waits for any more")         \
    X(timers, GAUGE, "timers and delayed messages that are pending")           \
    X(asks, GAUGE, "operations that have not ended")

typedef struct troupe_counters {
    size_t size; /* TROUPE_OPTIONS(troupe_counters): how much to fill */
#define TROUPE_COUNTER_MEMBER(name, kind, help) uint64_t name;
    TROUPE_COUNTER_MAP(TROUPE_COUNTER_MEMBER)
#undef TROUPE_COUNTER_MEMBER
} troupe_counters;

/*
 * Adds up the workers' own counters without stopping them: each number is exact
 * for some instant during the call, the set is not one snapshot. Of actors that
 * start or stop meanwhile `actors` may count more than were alive at a time,
 * and `runnable` leaves out those on their way from one thread to another's
 * queue. `queued` is read from the mailboxes themselves, so the equation is a
 * check and not a definition; it makes the call a pass over all cells. Any
 * thread. E_VERSION when the struct is newer than the library, E_INVALID
 * without a size.
 */
TROUPE_API troupe_status troupe_counters_read(
    const troupe_system *system, troupe_counters *counters);

TROUPE_END_DECLS

#endif /* TROUPE_COUNTERS_H */
