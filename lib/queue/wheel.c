/* SPDX-License-Identifier: MIT */
#include "queue/wheel.h"

#include "base/align.h"

#define LEVEL_BITS 6u

static void
make_empty(struct trp_wheel_link *list)
{
    list->next = list->prev = list;
}

static bool
is_empty(const struct trp_wheel_link *list)
{
    return list->next == list;
}

static void
append(struct trp_wheel_link *list, struct trp_wheel_link *link)
{
    link->next = list;
    link->prev = list->prev;
    list->prev->next = link;
    list->prev = link;
}

static struct trp_wheel_entry *
entry_of(struct trp_wheel_link *link)
{
    return TRP_CONTAINER_OF(link, struct trp_wheel_entry, link);
}

void
trp_wheel_init(struct trp_wheel *wheel, uint64_t now)
{
    wheel->now = now;
    make_empty(&wheel->moving);
    make_empty(&wheel->never);
    for (uint32_t level = 0; level < TRP_WHEEL_LEVELS; level++) {
        wheel->used[level] = 0;
    }
}

/* To the slot that W1 asks for; `time` is after `now`. */
static void
place(struct trp_wheel *wheel, struct trp_wheel_entry *entry)
{
    uint64_t differs = entry->time ^ wheel->now;
    uint32_t level = (63u - (uint32_t)__builtin_clzll(differs)) / LEVEL_BITS;
    uint32_t index =
        (uint32_t)(entry->time >> (level * LEVEL_BITS)) % TRP_WHEEL_SLOTS;
    struct trp_wheel_slot *slot = &wheel->slot[level][index];
    uint64_t bit = UINT64_C(1) << index;

    if ((wheel->used[level] & bit) == 0) {
        wheel->used[level] |= bit;
        make_empty(&slot->list);
        slot->least = entry->time;
    } else if (entry->time < slot->least) {
        slot->least = entry->time;
    }
    append(&slot->list, &entry->link);
}

void
trp_wheel_add(
    struct trp_wheel *wheel, struct trp_wheel_entry *entry, uint64_t time)
{
    entry->time = time;
    if (time == TRP_WHEEL_NEVER) {
        append(&wheel->never, &entry->link);
    } else if (time <= wheel->now || !is_empty(&wheel->moving)) {
        append(&wheel->moving, &entry->link); /* W4 */
    } else {
        place(wheel, entry);
    }
}

/* The last entry of this list has gone; if it is that of a slot: */
static void
leave_slot(struct trp_wheel *wheel, const struct trp_wheel_link *list)
{
    uintptr_t offset = (uintptr_t)list - (uintptr_t)wheel->slot;

    if (offset < sizeof wheel->slot) {
        size_t index = offset / sizeof wheel->slot[0][0];

        wheel->used[index / TRP_WHEEL_SLOTS] &=
            ~(UINT64_C(1) << (index % TRP_WHEEL_SLOTS));
    }
}

static void
take_out(struct trp_wheel *wheel, struct trp_wheel_entry *entry)
{
    struct trp_wheel_link *next = entry->link.next;
    struct trp_wheel_link *prev = entry->link.prev;

    next->prev = prev;
    prev->next = next;
    entry->link.next = NULL;
    if (next == prev && is_empty(next)) {
        leave_slot(wheel, next);
    }
}

bool
trp_wheel_remove(struct trp_wheel *wheel, struct trp_wheel_entry *entry)
{
    if (!trp_wheel_has(entry)) {
        return false;
    }
    take_out(wheel, entry);
    return true;
}

/* The first slot by W1, or NULL. Sets `*start` to its first time. */
static const struct trp_wheel_slot *
first_slot(const struct trp_wheel *wheel, uint64_t *start)
{
    for (uint32_t level = 0; level < TRP_WHEEL_LEVELS; level++) {
        if (wheel->used[level] != 0) {
            uint32_t shift = level * LEVEL_BITS;
            uint32_t index = (uint32_t)__builtin_ctzll(wheel->used[level]);
            uint64_t above = shift + LEVEL_BITS < 64
                                 ? wheel->now >> (shift + LEVEL_BITS)
                                                     << (shift + LEVEL_BITS)
                                 : 0;

            *start = above | ((uint64_t)index << shift);
            return &wheel->slot[level][index];
        }
    }
    return NULL;
}

uint64_t
trp_wheel_next(const struct trp_wheel *wheel)
{
    const struct trp_wheel_slot *slot;
    uint64_t start;

    if (!is_empty(&wheel->moving)) {
        return wheel->now;
    }
    slot = first_slot(wheel, &start);
    return slot != NULL ? slot->least : TRP_WHEEL_NEVER;
}

/* All that was in the slot, to `moving`, which is empty. */
static void
move_slot(struct trp_wheel *wheel, const struct trp_wheel_slot *slot)
{
    struct trp_wheel_link *moving = &wheel->moving;

    *moving = slot->list;
    moving->next->prev = moving->prev->next = moving;
    leave_slot(wheel, &slot->list);
}

struct trp_wheel_entry *
trp_wheel_pop(struct trp_wheel *wheel, uint64_t now, uint32_t *steps)
{
    for (;;) {
        const struct trp_wheel_slot *slot;
        uint64_t start;

        while (!is_empty(&wheel->moving)) {
            struct trp_wheel_entry *entry = entry_of(wheel->moving.next);

            if (*steps == 0) {
                return NULL;
            }
            --*steps;
            take_out(wheel, entry);
            if (entry->time <= wheel->now) {
                return entry;
            }
            place(wheel, entry);
        }
        slot = first_slot(wheel, &start);
        if (slot == NULL || start > now) {
            if (now > wheel->now) {
                wheel->now = now; /* W2 */
            }
            return NULL;
        }
        wheel->now = start;
        move_slot(wheel, slot);
    }
}
