/* SPDX-License-Identifier: MIT */
#include "slots.h"

#include <stddef.h>
#include <stdlib.h>

enum { SLOTS_FIRST = 64, SLOTS_MOST = 1u << 24 };

/* Called with no slot free, so nothing holds the old `count` as end mark. */
static bool
grow(struct slots *slots)
{
    uint32_t count = slots->count != 0 ? slots->count * 2 : SLOTS_FIRST;
    struct slot *items;

    if (count > SLOTS_MOST) {
        return false;
    }
    items = realloc(slots->items, count * sizeof *items);
    if (items == NULL) {
        return false;
    }
    for (uint32_t i = slots->count; i < count; i++) {
        items[i] = (struct slot){.next_free = i + 1};
    }
    slots->items = items;
    slots->first_free = slots->count;
    slots->count = count;
    return true;
}

bool
slots_add(struct slots *slots, struct connection *connection, uint32_t *index,
    uint32_t *generation)
{
    struct slot *slot;

    if (slots->first_free == slots->count && !grow(slots)) {
        return false;
    }
    *index = slots->first_free;
    slot = &slots->items[*index];
    slots->first_free = slot->next_free;
    slot->connection = connection;
    slots->used++;
    *generation = slot->generation;
    return true;
}

struct connection *
slots_find(const struct slots *slots, uint32_t index, uint32_t generation)
{
    return index < slots->count && slots->items[index].generation == generation
               ? slots->items[index].connection
               : NULL;
}

void
slots_remove(struct slots *slots, uint32_t index)
{
    struct slot *slot = &slots->items[index];

    slot->connection = NULL;
    slot->generation++;
    slot->next_free = slots->first_free;
    slots->first_free = index;
    slots->used--;
}

void
slots_free(struct slots *slots)
{
    free(slots->items);
    *slots = (struct slots){0};
}
