/* SPDX-License-Identifier: MIT */
#ifndef TRP_SYSTEM_DEAD_LETTERS_H
#define TRP_SYSTEM_DEAD_LETTERS_H

/*
 * The store of dead letters: the newest `capacity` of them in a list, and a
 * table by id.
 *
 *     oldest -> entry -> entry -> newest       bucket[id & mask] -> entry
 *
 * Cold: one lock, never held while memory is asked for or given back, or a
 * callback runs. Who visits entries holds them; the last holder frees one.
 *
 * Invariants
 *   D1  An entry is in both or in none; the list is in the order of arrival.
 *   D2  An id is in the store or in the box of one message under way
 *       (trp_box_replay), never in both: a replay takes it out before it sends.
 *   D3  The store never writes to a payload, and hands out copies of all that
 *       is not shared: receivers may write to theirs while somebody visits.
 */

#include "actor/core.h"
#include "os/futex.h"

struct trp_letter;

struct trp_dead_letters {
    /* constant after creation */
    uint32_t capacity; /* 0: no store */
    uint32_t max_replays;
    uint64_t retention_ns;
    size_t buckets; /* a power of two */

    /* under lock */
    struct trp_lock lock;
    uint32_t count;
    uint64_t last_id;
    uint64_t arrivals;
    struct trp_letter *oldest, *newest;
    struct trp_letter **bucket;
};

/* False: no memory. `options` may be NULL; the capacity is the tunable's. */
bool trp_dead_letters_init(troupe_system *system,
    const troupe_dead_letter_options *options, uint64_t capacity);
/* Zeroed is allowed. Last of all, before the pools. */
void trp_dead_letters_fini(troupe_system *system);

/* core.on_dead_letter: keeps it, logs it, publishes it. */
void trp_dead_letters_arrive(struct trp_core *core, struct trp_local *local,
    const troupe_dead_letter *letter, struct trp_box *box);

/* One could not be kept or published: a line in the log. */
void trp_dead_letters_no_memory(troupe_system *system);

#endif /* TRP_SYSTEM_DEAD_LETTERS_H */
