/* SPDX-License-Identifier: MIT */
#ifndef TRP_SYSTEM_EVENTS_H
#define TRP_SYSTEM_EVENTS_H

/*
 * Who subscribed to what: a topic per tag, with a ring of subscriptions in the
 * order in which they were made; each actor's own are chained in its extra.
 *
 *     bucket[tag] -> topic -> [a] <-> [b] <-> [place] <-> [c] <-> topic
 *                                                 |
 *             extra of c -> [c] -> [d in another topic] -> NULL
 *
 * A publisher walks the ring without holding the lock while a filter runs or a
 * message is sent: it leaves a place of its own there, on its stack, and asks
 * for the next few that are after it. So nothing is allocated per event, and
 * subscriptions come and go meanwhile.
 *
 * Invariants
 *   S1  A topic exists while there is a subscription or a place in its ring.
 *   S2  A subscription belongs to an actor that lives: the last thing an actor
 *       does before its cell is given back is to end its own. The chain is the
 *       actor's, the ring is under the lock.
 *   S3  A publisher goes no further than what was there when it began.
 */

#include <troupe/event.h>

#include "actor/core.h"
#include "os/futex.h"

#define TRP_TOPIC_BUCKETS 64u

struct trp_topic;

struct trp_events {
    /* under lock */
    struct trp_lock lock;
    uint64_t last; /* number of the newest subscription */
    struct trp_topic *bucket[TRP_TOPIC_BUCKETS];

    /* written under lock, read by anybody */
    TRP_ATOMIC(uint32_t) letter_listeners;
    TRP_ATOMIC(uint32_t) life_listeners;
};

/* Sets the functions of the core. */
void trp_events_init(troupe_system *system);
/* Last of all: subscriptions of a system that was not stopped. */
void trp_events_fini(troupe_system *system);

/* Publishes a dead letter, if somebody listens. */
void trp_events_letter(troupe_system *system, struct trp_local *local,
    const troupe_dead_letter *letter, struct trp_box *box);

#endif /* TRP_SYSTEM_EVENTS_H */
