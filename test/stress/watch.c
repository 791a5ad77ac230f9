/* SPDX-License-Identifier: MIT */

/*
 * Ports watch while the subjects die: before, during and long after. One
 * notice per watch: watching twice is watching once, but for a subject that
 * died in between, whose second watch is answered at once.
 */
#include "stress.h"

#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>

enum { WATCHERS = 3, SUBJECTS = 400 };

TROUPE_MSG_TYPE_EMPTY(end, 1);
TROUPE_MSG_TYPE_EMPTY(hello, 2);

struct storm {
    troupe_system *system;
    troupe_ref subjects[SUBJECTS];
    pthread_barrier_t start;
};

struct party {
    struct storm *storm;
    struct test_rng rng;
    pthread_t thread;
    uint64_t notices;
};

static troupe_verdict
be_subject(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)self;
    (void)state;
    return troupe_msg_is(msg, &end) ? TROUPE_DONE : TROUPE_CONTINUE;
}

static const troupe_actor_type subject_type = STRESS_ACTOR(be_subject);

static void *
kill_all(void *user)
{
    struct party *party = user;
    struct storm *storm = party->storm;

    (void)pthread_barrier_wait(&storm->start);
    for (uint32_t i = 0; i < SUBJECTS; i++) {
        troupe_ref whom = storm->subjects[i];

        (void)!troupe_post(storm->system, whom, &hello, NULL);
        switch (test_random_below(&party->rng, 3)) {
        case 0:
            STRESS_CHECK(
                troupe_post_stop(storm->system, whom) == TROUPE_OK, "stop");
            break;
        case 1:
            STRESS_CHECK(troupe_post_stop_now(storm->system, whom) == TROUPE_OK,
                "stop now");
            break;
        default:
            STRESS_CHECK(
                troupe_post(storm->system, whom, &end, NULL) == TROUPE_OK,
                "the end");
            break;
        }
        stress_jitter(&party->rng);
    }
    return NULL;
}

static uint32_t
index_of(const struct storm *storm, troupe_ref actor)
{
    for (uint32_t i = 0; i < SUBJECTS; i++) {
        if (troupe_ref_equal(storm->subjects[i], actor)) {
            return i;
        }
    }
    return SUBJECTS;
}

static uint32_t
take_notices(
    struct storm *storm, troupe_port *port, uint8_t *watched, bool *told)
{
    uint32_t taken = 0;
    const troupe_msg *msg;

    while ((msg = troupe_port_next(port)) != NULL) {
        const troupe_exit *why = troupe_down(msg);
        uint32_t i;

        STRESS_CHECK(troupe_msg_tag(msg) == TROUPE_TAG_DOWN && why != NULL,
            "tag %u", troupe_msg_tag(msg));
        i = index_of(storm, why->actor);
        STRESS_CHECK(i < SUBJECTS, "a notice about a stranger");
        STRESS_CHECK(watched[i] > 0, "subject %u: told too often", i);
        watched[i]--;
        taken += !told[i];
        told[i] = true;
        STRESS_CHECK(why->kind == TROUPE_EXIT_DONE ||
                         why->kind == TROUPE_EXIT_STOPPED ||
                         why->kind == TROUPE_EXIT_UNKNOWN,
            "kind %d", (int)why->kind);
    }
    return taken;
}

static void *
watch(void *user)
{
    struct party *party = user;
    struct storm *storm = party->storm;
    uint64_t end_ns;
    uint8_t watched[SUBJECTS] = {0};
    bool told[SUBJECTS] = {0};
    uint32_t taken = 0;
    troupe_port *port = NULL;

    STRESS_CHECK(
        troupe_port_open(storm->system, NULL, &port) == TROUPE_OK, "a port");
    (void)pthread_barrier_wait(&storm->start);
    for (uint32_t i = 0; i < SUBJECTS; i++) {
        uint32_t times = 1 + (test_random_below(&party->rng, 4) == 0);

        for (uint32_t j = 0; j < times; j++) {
            troupe_status status = troupe_port_watch(port, storm->subjects[i]);

            STRESS_CHECK(status == TROUPE_OK, "%s", troupe_status_name(status));
            watched[i]++;
        }
        if (test_random_below(&party->rng, 8) == 0) {
            taken += take_notices(storm, port, watched, told);
        }
        stress_jitter(&party->rng);
    }
    end_ns = test_clock_ns() + STRESS_DEADLINE_NS;
    while ((taken += take_notices(storm, port, watched, told)) < SUBJECTS) {
        struct pollfd ready = {troupe_port_fd(port), POLLIN, 0};

        STRESS_CHECK(test_clock_ns() < end_ns, "%u notices of %u", taken,
            (uint32_t)SUBJECTS);
        (void)poll(&ready, 1, (int)(STRESS_DEADLINE_NS / 1000000));
    }
    stress_await_idle(storm->system);
    STRESS_CHECK(
        take_notices(storm, port, watched, told) == 0, "one notice too many");
    party->notices = taken;
    troupe_port_close(port);
    return NULL;
}

static uint64_t
run(struct test_rng *rng)
{
    troupe_system_options options = stress_options(stress_workers(rng));
    uint32_t count = stress_threads(rng, WATCHERS);
    struct storm *storm = stress_zeroed(1, sizeof *storm);
    struct party killer = {.storm = storm};
    struct party watchers[WATCHERS];
    uint64_t notices = 0;

    storm->system = stress_open(&options);
    (void)pthread_barrier_init(&storm->start, NULL, count + 1);
    for (uint32_t i = 0; i < SUBJECTS; i++) {
        storm->subjects[i] = stress_spawn(storm->system, &subject_type, NULL);
    }
    killer.rng.state = test_random(rng);
    stress_thread(&killer.thread, kill_all, &killer);
    for (uint32_t i = 0; i < count; i++) {
        watchers[i] = (struct party){.storm = storm};
        watchers[i].rng.state = test_random(rng);
        stress_thread(&watchers[i].thread, watch, &watchers[i]);
    }
    stress_join(killer.thread);
    for (uint32_t i = 0; i < count; i++) {
        stress_join(watchers[i].thread);
        notices += watchers[i].notices;
    }
    stress_close(storm->system);
    (void)pthread_barrier_destroy(&storm->start);
    free(storm);
    return notices;
}

int
main(int argc, char **argv)
{
    struct test_rng rng;
    uint64_t notices = 0;

    stress_begin(argc, argv);
    while (stress_more(&rng)) {
        notices += run(&rng);
    }
    return stress_end(notices, "death notices");
}
