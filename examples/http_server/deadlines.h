/* SPDX-License-Identifier: MIT */
#ifndef HTTP_DEADLINES_H
#define HTTP_DEADLINES_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

/*
 * Many deadlines of one and the same length: a list in order of expiry and one
 * timer for its head. Setting and clearing are O(1), and a loop without
 * deadlines is never woken.
 */
struct deadline {
    struct deadline *previous; /* NULL = not set */
    struct deadline *next;
    uint64_t at_ms;
};

typedef void (*deadline_expired_fn)(struct deadline *deadline);

struct deadlines {
    uv_timer_t timer;
    struct deadline list;
    uint64_t after_ms;
    deadline_expired_fn expired; /* the deadline is no longer set then */
};

int deadlines_init(struct deadlines *deadlines, uv_loop_t *loop,
    uint64_t after_ms, deadline_expired_fn expired);
/* From now; a deadline that is set already is moved. */
void deadlines_set(struct deadlines *deadlines, struct deadline *deadline);
bool deadline_is_set(const struct deadline *deadline);
/* Of whichever list it is in; not set is fine. */
void deadline_clear(struct deadline *deadline);

#endif /* HTTP_DEADLINES_H */
