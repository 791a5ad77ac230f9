/* SPDX-License-Identifier: MIT */
#include "queue/fifo.h"

#include "queue/capacity.h"

#include <string.h>

static size_t
bytes_of(uint32_t capacity)
{
    return (size_t)capacity * sizeof(struct trp_order_entry);
}

/* The entries in order: up to the end of the ring, then from its start. */
static void
copy_out(const struct trp_fifo *fifo, struct trp_order_entry *to)
{
    uint32_t start = fifo->first & (fifo->capacity - 1);
    uint32_t behind = fifo->capacity - start;
    uint32_t upper = fifo->length < behind ? fifo->length : behind;

    memcpy(to, &fifo->entries[start], bytes_of(upper));
    memcpy(to + upper, fifo->entries, bytes_of(fifo->length - upper));
}

/* False: no memory, nothing changed. */
static TRP_COLD bool
set_capacity(struct trp_fifo *fifo, uint32_t capacity)
{
    struct trp_order_entry *entries = NULL;

    if (capacity != 0) {
        entries = trp_heap_alloc(fifo->heap, bytes_of(capacity));
        if (entries == NULL) {
            return false;
        }
    }
    if (fifo->entries != NULL) {
        if (fifo->length != 0) {
            copy_out(fifo, entries);
        }
        trp_heap_free(fifo->heap, fifo->entries, bytes_of(fifo->capacity));
    }
    fifo->entries = entries;
    fifo->first = 0;
    fifo->capacity = capacity;
    return true;
}

bool
trp_fifo_reserve(struct trp_fifo *fifo, uint32_t more)
{
    uint32_t capacity = trp_capacity_for(fifo->capacity, fifo->length, more);

    return capacity == fifo->capacity ||
           (capacity != 0 && set_capacity(fifo, capacity));
}

/* False: no memory, nothing changed. */
static inline bool
make_room(struct trp_fifo *fifo)
{
    return TRP_LIKELY(fifo->length < fifo->capacity) ||
           trp_fifo_reserve(fifo, 1);
}

/* F2. Without memory for a smaller ring the large one stays. */
static inline void
give_back(struct trp_fifo *fifo)
{
    if (TRP_UNLIKELY(trp_capacity_is_too_large(fifo->capacity, fifo->length))) {
        (void)set_capacity(
            fifo, trp_capacity_below(fifo->capacity, fifo->length));
    }
}

void
trp_fifo_fini(struct trp_fifo *fifo)
{
    fifo->length = 0;
    (void)set_capacity(fifo, 0);
}

bool
trp_fifo_push_last(struct trp_fifo *fifo, const struct trp_order_entry *entry)
{
    if (!make_room(fifo)) {
        return false;
    }
    *trp_fifo_at(fifo, fifo->length) = *entry;
    fifo->length++;
    return true;
}

bool
trp_fifo_push_first(struct trp_fifo *fifo, const struct trp_order_entry *entry)
{
    if (!make_room(fifo)) {
        return false;
    }
    fifo->first--;
    *trp_fifo_at(fifo, 0) = *entry;
    fifo->length++;
    return true;
}

bool
trp_fifo_take_first(struct trp_fifo *fifo, struct trp_order_entry *out)
{
    if (fifo->length == 0) {
        return false;
    }
    *out = *trp_fifo_at(fifo, 0);
    fifo->first++;
    fifo->length--;
    give_back(fifo);
    return true;
}

bool
trp_fifo_take_last(struct trp_fifo *fifo, struct trp_order_entry *out)
{
    if (fifo->length == 0) {
        return false;
    }
    fifo->length--;
    *out = *trp_fifo_at(fifo, fifo->length);
    give_back(fifo);
    return true;
}
