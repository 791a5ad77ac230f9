/* SPDX-License-Identifier: MIT */

/*
 * Foreign threads. A thousand that live only long enough to post one message,
 * then eight that post flat out to four actors. All arrive, each once.
 */
#include "stress.h"

#include <inttypes.h>
#include <stdlib.h>

enum { SHORT = 1000, WAVE = 16, LONG = 8, TARGETS = 4 };

TROUPE_MSG_TYPE(mark, uint64_t, 1);

struct marks {
    uint64_t capacity;
    _Atomic unsigned char *seen; /* times that each number arrived */
    _Atomic uint64_t handled;
};

struct poster {
    troupe_system *system;
    troupe_ref to[TARGETS];
    uint64_t first;
    uint64_t count;
    struct test_rng rng;
    pthread_t thread;
};

static troupe_verdict
take_mark(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct marks *marks = STRESS_STATE(struct marks, state);
    uint64_t number = *troupe_payload(msg, uint64_t);

    (void)self;
    STRESS_CHECK(number < marks->capacity, "number %" PRIu64, number);
    STRESS_CHECK(atomic_fetch_add(&marks->seen[number], 1) == 0,
        "number %" PRIu64 " came twice", number);
    atomic_fetch_add_explicit(&marks->handled, 1, memory_order_relaxed);
    return TROUPE_CONTINUE;
}

static const troupe_actor_type target_type = STRESS_ACTOR(take_mark);

static void *
post(void *user)
{
    struct poster *poster = user;

    for (uint64_t i = 0; i < poster->count; i++) {
        uint64_t number = poster->first + i;
        troupe_ref to = poster->to[test_random_below(&poster->rng, TARGETS)];
        troupe_status status = troupe_post(poster->system, to, &mark, &number);

        STRESS_CHECK(status == TROUPE_OK, "%s", troupe_status_name(status));
        if (poster->count > 1) {
            stress_jitter(&poster->rng);
        }
    }
    return NULL;
}

static void
run_posters(struct poster *posters, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        stress_thread(&posters[i].thread, post, &posters[i]);
    }
    for (uint32_t i = 0; i < count; i++) {
        stress_join(posters[i].thread);
    }
}

static uint64_t
run(struct test_rng *rng)
{
    troupe_system_options options = stress_options(stress_workers(rng));
    uint32_t threads = stress.threads != 0 ? stress.threads : LONG;
    uint64_t each = 1000 + test_random_below(rng, 20000);
    struct marks marks = {0};
    struct poster like = {0};
    struct poster *posters =
        stress_zeroed(threads > WAVE ? threads : WAVE, sizeof *posters);
    uint64_t posted = 0;

    marks.capacity = SHORT + WAVE + threads * each;
    marks.seen = stress_zeroed(marks.capacity, sizeof *marks.seen);
    like.system = stress_open(&options);
    for (uint32_t i = 0; i < TARGETS; i++) {
        like.to[i] = stress_spawn(like.system, &target_type, &marks);
    }
    while (posted < SHORT) {
        for (uint32_t i = 0; i < WAVE; i++) {
            posters[i] = like;
            posters[i].first = posted++;
            posters[i].count = 1;
            posters[i].rng.state = test_random(rng);
        }
        run_posters(posters, WAVE);
    }
    for (uint32_t i = 0; i < threads; i++) {
        posters[i] = like;
        posters[i].first = posted;
        posters[i].count = each;
        posters[i].rng.state = test_random(rng);
        posted += each;
    }
    run_posters(posters, threads);
    stress_await_idle(like.system);
    STRESS_CHECK(atomic_load(&marks.handled) == posted,
        "%" PRIu64 " of %" PRIu64 " arrived", atomic_load(&marks.handled),
        posted);
    STRESS_CHECK(stress_counters(like.system).handled == posted, "counters");
    stress_close(like.system);
    free(marks.seen);
    free(posters);
    return posted;
}

int
main(int argc, char **argv)
{
    struct test_rng rng;
    uint64_t posted = 0;

    stress_begin(argc, argv);
    while (stress_more(&rng)) {
        posted += run(&rng);
    }
    return stress_end(posted, "posts");
}
