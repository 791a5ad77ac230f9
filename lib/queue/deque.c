/* SPDX-License-Identifier: MIT */
#include "queue/deque.h"

#define FIRST_ENTRIES 256

static struct trp_deque_array *
new_array(struct trp_deque *deque, int64_t entries)
{
    size_t bytes = sizeof(struct trp_deque_array) +
                   (size_t)entries * sizeof(TRP_ATOMIC(void *));
    struct trp_deque_array *array = trp_heap_alloc(deque->heap, bytes);

    if (array != NULL) {
        array->mask = entries - 1;
        array->bytes = bytes;
    }
    return array;
}

bool
trp_deque_init(struct trp_deque *deque, struct trp_heap *heap)
{
    struct trp_deque_array *array;

    deque->heap = heap;
    array = new_array(deque, FIRST_ENTRIES);
    /* relaxed: not shared yet. */
    trp_store_relaxed(&deque->array, array);
    return array != NULL;
}

void
trp_deque_fini(struct trp_deque *deque)
{
    /* relaxed: nobody else is left. */
    struct trp_deque_array *array = trp_load_relaxed(&deque->array);

    while (array != NULL) {
        struct trp_deque_array *older = array->older;

        trp_heap_free(deque->heap, array, array->bytes);
        array = older;
    }
    trp_store_relaxed(&deque->array, NULL); /* relaxed: as above */
}

bool
trp_deque_grow(struct trp_deque *deque)
{
    /* relaxed: the owner alone writes these. */
    struct trp_deque_array *old = trp_load_relaxed(&deque->array);
    int64_t bottom = trp_load_relaxed(&deque->bottom);
    struct trp_deque_array *array = new_array(deque, 2 * (old->mask + 1));

    if (array == NULL) {
        return false;
    }
    for (int64_t i = deque->top_seen; i < bottom; i++) {
        /* relaxed: published by deque.array. */
        trp_store_relaxed(&array->entry[i & array->mask],
            trp_load_relaxed(&old->entry[i & old->mask])); /* relaxed: own */
    }
    array->older = old;                      /* D3 */
    trp_store_release(&deque->array, array); /* pairs: deque.array */
    return true;
}
