/* SPDX-License-Identifier: MIT */
#include "queue/order.h"

#include "queue/capacity.h"

#include <string.h>

/*
 * From this slot on, sink() asks for the lines of the step after next: 16 times
 * further down the array, beyond the 48 KiB that are in the first cache. Taking
 * a million random ranks out took 360 to 405 ns each instead of 472 to 483 (two
 * runs of each by turns, gcc 12 -O3, AMD EPYC, a shared core). With 8 ranks
 * nothing is gained: equal ranks lie close together.
 */
#define PREFETCH_FROM 64
#define LINES_OF_SIXTEEN (16 * sizeof(struct trp_order_entry) / TRP_CACHE_LINE)

/* Which end an entry wants to go to; constant wherever it is passed. */
enum side { SIDE_FIRST, SIDE_LAST };

/*
 * A number in the order of ranks, without branches. The bits of a double are
 * sign and magnitude: a negative one becomes minus its magnitude, so both zeros
 * are 0. Beyond the magnitude of infinity lie the NaN. Whole numbers, so that
 * neither rounding mode nor -ffast-math matters.
 */
TRP_INLINE int64_t
key_of(const struct trp_order_entry *entry)
{
    int64_t bits;
    int64_t magnitude;

    memcpy(&bits, &entry->rank, sizeof bits);
    magnitude = bits & INT64_MAX;
    if (magnitude > INT64_C(0x7ff0000000000000)) {
        return INT64_MAX;
    }
    return bits < 0 ? -magnitude : magnitude;
}

/* The two halves are joined by & and |: a jump here is mispredicted. */
TRP_INLINE bool
is_before(const struct trp_order_entry *a, const struct trp_order_entry *b)
{
    int64_t key_a = key_of(a);
    int64_t key_b = key_of(b);

    return (key_a < key_b) | ((key_a == key_b) & (a->sequence < b->sequence));
}

/* Is `a` nearer to the end `side` than `b`? */
TRP_INLINE bool
is_better(const struct trp_order_entry *a, const struct trp_order_entry *b,
    enum side side)
{
    return side == SIDE_FIRST ? is_before(a, b) : is_before(b, a);
}

bool
trp_order_is_before(
    const struct trp_order_entry *a, const struct trp_order_entry *b)
{
    return is_before(a, b);
}

static size_t
bytes_of(uint32_t capacity)
{
    return ((size_t)capacity + 1) * sizeof(struct trp_order_entry);
}

/* False: no memory, nothing changed. */
static TRP_COLD bool
set_capacity(struct trp_order *order, uint32_t capacity)
{
    struct trp_order_entry *slots = NULL;

    if (capacity != 0) {
        slots = trp_heap_alloc(order->heap, bytes_of(capacity));
        if (slots == NULL) {
            return false;
        }
        if (order->length != 0) {
            memcpy(&slots[1], &order->slots[1], order->length * sizeof *slots);
        }
    }
    if (order->slots != NULL) {
        trp_heap_free(order->heap, order->slots, bytes_of(order->capacity));
    }
    order->slots = slots;
    order->capacity = capacity;
    return true;
}

/* O4. Without memory for a smaller array the large one stays. */
static inline void
give_back(struct trp_order *order)
{
    if (TRP_UNLIKELY(
            trp_capacity_is_too_large(order->capacity, order->length))) {
        (void)set_capacity(
            order, trp_capacity_below(order->capacity, order->length));
    }
}

void
trp_order_fini(struct trp_order *order)
{
    order->length = 0;
    (void)set_capacity(order, 0);
}

/* Moves the hole `at` up, over levels of its own kind, to where `entry` fits.
 */
TRP_INLINE size_t
rise_on_own_levels(struct trp_order_entry *slots, size_t at,
    const struct trp_order_entry *entry, enum side side)
{
    while (at >= 4 && is_better(entry, &slots[at / 4], side)) {
        slots[at] = slots[at / 4];
        at /= 4;
    }
    return at;
}

/* Puts `entry` into the hole `at`, which has nothing below it. O1, O2. */
static inline void
fill(struct trp_order_entry *slots, size_t at,
    const struct trp_order_entry *entry)
{
    bool on_max_level = ((63 - __builtin_clzll(at)) & 1) != 0;
    size_t parent = at / 2;

    if (at > 1 && is_before(entry, &slots[parent]) == on_max_level) {
        /* On the wrong side of its parent: they change levels. */
        slots[at] = slots[parent];
        at = parent;
        on_max_level = !on_max_level;
    }
    at = on_max_level ? rise_on_own_levels(slots, at, entry, SIDE_LAST)
                      : rise_on_own_levels(slots, at, entry, SIDE_FIRST);
    slots[at] = *entry;
}

bool
trp_order_reserve(struct trp_order *order, uint32_t more)
{
    uint32_t capacity = trp_capacity_for(order->capacity, order->length, more);

    return capacity == order->capacity ||
           (capacity != 0 && set_capacity(order, capacity));
}

bool
trp_order_push(struct trp_order *order, const struct trp_order_entry *entry)
{
    if (TRP_UNLIKELY(order->length == order->capacity) &&
        !trp_order_reserve(order, 1)) {
        return false;
    }
    order->length++;
    fill(order->slots, order->length, entry);
    return true;
}

/* The best of slots[from .. from + 3]. */
TRP_INLINE size_t
best_of_four(const struct trp_order_entry *slots, size_t from, enum side side)
{
    size_t a = from + is_better(&slots[from + 1], &slots[from], side);
    size_t b = from + 2 + is_better(&slots[from + 3], &slots[from + 2], side);

    return is_better(&slots[b], &slots[a], side) ? b : a;
}

/* The best below `at`, where not all four grandchildren exist. */
TRP_INLINE size_t
best_at_edge(const struct trp_order_entry *slots, size_t length, size_t at,
    enum side side)
{
    size_t best = 2 * at;

    if (2 * at + 1 <= length &&
        is_better(&slots[2 * at + 1], &slots[best], side)) {
        best = 2 * at + 1;
    }
    for (size_t i = 4 * at; i <= length; i++) {
        if (is_better(&slots[i], &slots[best], side)) {
            best = i;
        }
    }
    return best;
}

/* The next step is to one of four: fetches where each of them leads to. */
TRP_INLINE void
prefetch(const struct trp_order_entry *slots, size_t at)
{
    const char *lines = (const char *)&slots[16 * at];

    for (size_t i = 0; i < LINES_OF_SIXTEEN; i++) {
        __builtin_prefetch(lines + i * TRP_CACHE_LINE);
    }
}

/*
 * Moves the hole `at`, on a level of `side`, down to where nothing lies below
 * it. What moves up is the best of all below, so O1 and O2 hold for it.
 */
TRP_INLINE size_t
sink(struct trp_order_entry *slots, size_t length, size_t at, enum side side)
{
    size_t best;

    while (4 * at + 3 <= length) {
        if (at >= PREFETCH_FROM && 16 * at + 15 <= length) {
            prefetch(slots, at);
        }
        best = best_of_four(slots, 4 * at, side);
        slots[at] = slots[best];
        at = best;
    }
    if (2 * at <= length) {
        best = best_at_edge(slots, length, at, side);
        slots[at] = slots[best];
        at = best;
    }
    return at;
}

/* Takes slot `at`, the best of `side`. */
TRP_INLINE void
take(struct trp_order *order, size_t at, enum side side,
    struct trp_order_entry *out)
{
    struct trp_order_entry *slots = order->slots;
    size_t last = order->length;

    *out = slots[at];
    order->length--;
    if (at != last) {
        at = sink(slots, order->length, at, side);
        fill(slots, at, &slots[last]);
    }
    give_back(order);
}

bool
trp_order_take_first(struct trp_order *order, struct trp_order_entry *out)
{
    if (order->length == 0) {
        return false;
    }
    take(order, 1, SIDE_FIRST, out);
    return true;
}

static size_t
last_slot(const struct trp_order *order)
{
    if (order->length < 3) {
        return order->length;
    }
    return is_before(&order->slots[2], &order->slots[3]) ? 3 : 2;
}

const struct trp_order_entry *
trp_order_last(const struct trp_order *order)
{
    return order->length == 0 ? NULL : &order->slots[last_slot(order)];
}

bool
trp_order_take_last(struct trp_order *order, struct trp_order_entry *out)
{
    if (order->length == 0) {
        return false;
    }
    take(order, last_slot(order), SIDE_LAST, out);
    return true;
}
