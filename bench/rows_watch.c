/* SPDX-License-Identifier: MIT */

/* Rows that measure death watch. */

#include "rows.h"

enum { ACTORS = 200000 };

static troupe_ref actors[ACTORS];

static int64_t
spawn_all(struct bench *bench, const troupe_actor_type *type)
{
    int64_t count = bench_scaled(bench, ACTORS);

    count = count < ACTORS ? count : ACTORS;
    for (int64_t i = 0; i < count; i++) {
        actors[i] = bench_spawn(bench, type, NULL, 0);
    }
    bench->result.messages = (uint64_t)count;
    return count;
}

/* --- watchstorm: many watch one, it ends, all are told -------------------- */

TROUPE_MSG_TYPE(star_message, troupe_ref, 10);

static troupe_verdict
fan_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)state;
    if (troupe_msg_is(msg, &star_message)) {
        troupe_ref star = *troupe_payload(msg, troupe_ref);

        bench_must(troupe_watch(self, star), "watch");
        troupe_tell(self, star, &bench_go, NULL);
        return TROUPE_CONTINUE;
    }
    bench_expect(troupe_down(msg)->kind == TROUPE_EXIT_DONE, "how it ended");
    bench_count_down(self, 1);
    return TROUPE_CONTINUE;
}

static const troupe_actor_type fan_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "fan",
    .receive = fan_receive,
};

struct star {
    int64_t left; /* to be asked to watch, from the last one down */
    int64_t waits;
};

/* Asks all to watch it, and ends when they do. */
static troupe_verdict
star_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    troupe_ref me = troupe_self_ref(self);
    struct star *star = state;

    if (troupe_msg_is(msg, &bench_go)) {
        return --star->waits == 0 ? TROUPE_DONE : TROUPE_CONTINUE;
    }
    star->left = *troupe_payload(msg, int64_t);
    star->waits = star->waits != 0 ? star->waits : star->left;
    for (int i = 0; i < BENCH_CHUNK && star->left > 0; i++) {
        troupe_tell(self, actors[--star->left], &star_message, &me);
    }
    if (star->left > 0) {
        bench_tell_number(self, me, star->left);
    }
    return TROUPE_CONTINUE;
}

static const troupe_actor_type star_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "star",
    .state_bytes = sizeof(struct star),
    .receive = star_receive,
};

void
bench_watchstorm(struct bench *bench)
{
    int64_t count = spawn_all(bench, &fan_type);
    troupe_ref star = bench_spawn(bench, &star_type, NULL, 0);

    bench_count_down_from(count);
    bench_begin(bench);
    bench_post_number(bench, star, count);
    bench_expect(bench_wait(bench) == count, "number of notices");
    bench->must_end = 1;
}

/* --- watchmany: one watches many, they end -------------------------------- */

static troupe_verdict
mortal_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)self;
    (void)state;
    (void)msg;
    return TROUPE_DONE;
}

static const troupe_actor_type mortal_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "mortal",
    .receive = mortal_receive,
};

struct guard {
    int64_t left; /* to be watched, from the last one down */
    int64_t waits;
    int64_t notices;
};

/* Watches all and lets them end. */
static troupe_verdict
guard_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct guard *guard = state;

    if (troupe_msg_tag(msg) == TROUPE_TAG_DOWN) {
        if (++guard->notices == guard->waits) {
            bench_done(self, guard->notices);
        }
        return TROUPE_CONTINUE;
    }
    guard->left = *troupe_payload(msg, int64_t);
    guard->waits = guard->waits != 0 ? guard->waits : guard->left;
    for (int i = 0; i < BENCH_CHUNK && guard->left > 0; i++) {
        troupe_ref mortal = actors[--guard->left];

        bench_must(troupe_watch(self, mortal), "watch");
        troupe_tell(self, mortal, &bench_go, NULL);
    }
    if (guard->left > 0) {
        bench_tell_number(self, troupe_self_ref(self), guard->left);
    }
    return TROUPE_CONTINUE;
}

static const troupe_actor_type guard_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "guard",
    .state_bytes = sizeof(struct guard),
    .receive = guard_receive,
};

void
bench_watchmany(struct bench *bench)
{
    int64_t count = spawn_all(bench, &mortal_type);
    troupe_ref guard = bench_spawn(bench, &guard_type, NULL, 0);

    bench_begin(bench);
    bench_post_number(bench, guard, count);
    bench_expect(bench_wait(bench) == count, "number of notices");
    bench->must_end = (uint64_t)count;
}
