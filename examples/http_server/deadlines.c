/* SPDX-License-Identifier: MIT */
#include "deadlines.h"

static void on_timer(uv_timer_t *timer);

static void
arm(struct deadlines *deadlines)
{
    struct deadline *first = deadlines->list.next;
    uint64_t now = uv_now(deadlines->timer.loop);

    if (first != &deadlines->list &&
        !uv_is_active((uv_handle_t *)&deadlines->timer) &&
        !uv_is_closing((uv_handle_t *)&deadlines->timer)) {
        uv_timer_start(&deadlines->timer, on_timer,
            first->at_ms > now ? first->at_ms - now : 0, 0);
    }
}

static void
on_timer(uv_timer_t *timer)
{
    struct deadlines *deadlines = timer->data;
    struct deadline *first;

    while ((first = deadlines->list.next) != &deadlines->list &&
           first->at_ms <= uv_now(timer->loop)) {
        deadline_clear(first);
        deadlines->expired(first);
    }
    arm(deadlines);
}

int
deadlines_init(struct deadlines *deadlines, uv_loop_t *loop, uint64_t after_ms,
    deadline_expired_fn expired)
{
    deadlines->list.previous = &deadlines->list;
    deadlines->list.next = &deadlines->list;
    deadlines->after_ms = after_ms;
    deadlines->expired = expired;
    deadlines->timer.data = deadlines;
    return uv_timer_init(loop, &deadlines->timer);
}

void
deadlines_set(struct deadlines *deadlines, struct deadline *deadline)
{
    struct deadline *last;

    deadline_clear(deadline);
    last = deadlines->list.previous;
    deadline->at_ms = uv_now(deadlines->timer.loop) + deadlines->after_ms;
    deadline->previous = last;
    deadline->next = &deadlines->list;
    last->next = deadline;
    deadlines->list.previous = deadline;
    arm(deadlines);
}

bool
deadline_is_set(const struct deadline *deadline)
{
    return deadline->previous != NULL;
}

void
deadline_clear(struct deadline *deadline)
{
    if (deadline->previous != NULL) {
        deadline->previous->next = deadline->next;
        deadline->next->previous = deadline->previous;
        deadline->previous = NULL;
        deadline->next = NULL;
    }
}
