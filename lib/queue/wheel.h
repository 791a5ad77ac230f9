/* SPDX-License-Identifier: MIT */
#ifndef TRP_QUEUE_WHEEL_H
#define TRP_QUEUE_WHEEL_H

/*
 * What is due when: a hierarchical timing wheel of 64-bit times (Varghese and
 * Lauck, SOSP 1987). Intrusive, not locked.
 *
 *     bits of a time   63..60  59..54   ...   11..6   5..0
 *     level                10       9   ...       1      0
 *
 *     level 0   [ ][ ][a][ ] ...    64 slots of one time each
 *     level 1   [ ][b][ ][ ] ...    64 slots of 64 times each
 *     level 2   [ ][ ][c][d] ...    and so on
 *
 * An entry is in the level of the highest bits in which its time differs from
 * `now`, in the slot that those six bits name. When `now` reaches the beginning
 * of a slot, its entries go to `moving` in one step, and from there one by one
 * to lower levels, or out.
 *
 * add, remove   O(1), whatever is pending.
 * pop           O(1) for each of at most 11 moves of an entry in its life.
 *
 * Entries come out in the order of their times, and at the same time in the
 * order in which they were added; one that was added when its time had passed
 * comes after those that are on their way out.
 *
 * Invariants
 *   W1  An entry of level l agrees with `now` in all bits above that level, and
 *       in those of the level it is greater. So all of level l come before all
 *       of level l + 1, and the first slot in use of the lowest level in use is
 *       the next one: no slot is ever a lap ahead.
 *   W2  `now` never passes the beginning of a slot that is in use.
 *   W3  A slot's `least` is at most the time of each of its entries. It is that
 *       of the first one unless that was removed.
 *   W4  While something is in `moving` new entries go to its end, so that they
 *       do not overtake what was added before.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TRP_WHEEL_NEVER UINT64_MAX
#define TRP_WHEEL_LEVELS 11u
#define TRP_WHEEL_SLOTS 64u

struct trp_wheel_link {
    struct trp_wheel_link *next; /* NULL: not in the wheel */
    struct trp_wheel_link *prev;
};

struct trp_wheel_entry {
    struct trp_wheel_link link; /* first */
    uint64_t time;
};

struct trp_wheel_slot {
    struct trp_wheel_link list; /* first; means nothing while not in use */
    uint64_t least;
};

struct trp_wheel {
    uint64_t now; /* what is due until then is out, or in `moving` */
    struct trp_wheel_link moving;
    struct trp_wheel_link never; /* TRP_WHEEL_NEVER: it never comes out */
    uint64_t used[TRP_WHEEL_LEVELS];
    struct trp_wheel_slot slot[TRP_WHEEL_LEVELS][TRP_WHEEL_SLOTS];
};

/* There is nothing to free; what is in it stays its owner's. */
void trp_wheel_init(struct trp_wheel *wheel, uint64_t now);

static inline bool
trp_wheel_has(const struct trp_wheel_entry *entry)
{
    return entry->link.next != NULL;
}

/* `entry` is not in the wheel; when it is the first time, it is zeroed. */
void trp_wheel_add(
    struct trp_wheel *wheel, struct trp_wheel_entry *entry, uint64_t time);
/* False: it was not there. */
bool trp_wheel_remove(struct trp_wheel *wheel, struct trp_wheel_entry *entry);

/*
 * Nothing comes out before that; NEVER: nothing is pending. Exact, unless
 * something was removed: then it may be too early, and pop moves it on.
 */
uint64_t trp_wheel_next(const struct trp_wheel *wheel);

/*
 * The next entry whose time is `now` or earlier, which is not in the wheel any
 * more; or NULL: nothing is due, or `*steps` moves were made and have used it
 * up. A `now` that is older than that of the last call counts as that one.
 */
struct trp_wheel_entry *trp_wheel_pop(
    struct trp_wheel *wheel, uint64_t now, uint32_t *steps);

#endif /* TRP_QUEUE_WHEEL_H */
