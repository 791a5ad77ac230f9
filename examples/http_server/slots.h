/* SPDX-License-Identifier: MIT */
#ifndef HTTP_SLOTS_H
#define HTTP_SLOTS_H

#include <stdbool.h>
#include <stdint.h>

struct connection;

/*
 * The open connections of a loop, by number. Actors hold numbers, never
 * pointers: an answer that comes after its connection has gone finds another
 * generation in the slot, and nobody.
 */
struct slot {
    struct connection *connection; /* NULL = free */
    uint32_t generation;
    uint32_t next_free;
};

struct slots {
    struct slot *items;
    uint32_t count;
    uint32_t first_free; /* `count` = none */
    uint32_t used;
};

/* False when out of memory. */
bool slots_add(struct slots *slots, struct connection *connection,
    uint32_t *index, uint32_t *generation);
/* NULL when it has gone. */
struct connection *slots_find(
    const struct slots *slots, uint32_t index, uint32_t generation);
void slots_remove(struct slots *slots, uint32_t index);
void slots_free(struct slots *slots);

#endif /* HTTP_SLOTS_H */
