/* SPDX-License-Identifier: MIT */

/*
 * What syscalls.sh watches with strace: does one thing between two marks. A
 * mark is a write to no descriptor.
 *
 *     syscalls_probe idle | timers | post | pingpong | driven
 */
#include "support/await.h"

#include <troupe/troupe.h>

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { IDLE_MS = 3000, SETTLE_MS = 300, POSTS = 20, LAPS = 1000000 };

TROUPE_MSG_TYPE(ball, uint64_t, 1);

static void
require(bool good, const char *what)
{
    if (!good) {
        (void)fprintf(stderr, "syscalls_probe: %s\n", what);
        exit(1);
    }
}

static void
mark(const char *what)
{
    (void)!write(-1, what, strlen(what));
}

/* With everybody asleep for a while already. */
static void
settle(troupe_system *system)
{
    require(troupe_system_await_idle(system, TEST_DEADLINE_NS) == TROUPE_OK,
        "it does not come to rest");
    (void)poll(NULL, 0, SETTLE_MS);
}

/* 0: driven. */
static troupe_system *
open_system(uint32_t workers)
{
    troupe_system_options options = TROUPE_INIT(troupe_system_options);
    troupe_system *system = NULL;

    options.flags = TROUPE_SYSTEM_IGNORE_ENV;
    if (workers == 0) {
        options.flags |= TROUPE_SYSTEM_DRIVEN;
    }
    options.workers = workers;
    options.log.max_level = TROUPE_LOG_ERROR;
    require(troupe_system_create(&options, &system) == TROUPE_OK, "no system");
    return system;
}

static troupe_verdict
echo(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)state;
    troupe_reply(self, &ball, msg->payload);
    return TROUPE_CONTINUE;
}

static const troupe_actor_type echo_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "echo",
    .receive = echo,
};

struct player {
    troupe_ref port; /* who hears of the end */
};

static troupe_status
start_player(troupe_self *self, void *state, const void *arg)
{
    (void)self;
    *(struct player *)state = *(const struct player *)arg;
    return TROUPE_OK;
}

/* Counts down; serves to the echo, who sends it back. */
static troupe_verdict
play(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct player *player = state;
    uint64_t left = *troupe_payload(msg, uint64_t);
    troupe_ref other = troupe_sender(self);

    if (troupe_ref_is_none(other)) {
        require(troupe_spawn(self, &echo_type, NULL, &other) == TROUPE_OK,
            "no other");
        mark("mark begin");
    }
    if (left == 0) {
        mark("mark end");
        troupe_tell(self, player->port, &ball, &left);
        return TROUPE_CONTINUE;
    }
    left--;
    troupe_tell(self, other, &ball, &left);
    return TROUPE_CONTINUE;
}

static const troupe_actor_type player_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "player",
    .state_bytes = sizeof(struct player),
    .receive = play,
    .start = start_player,
};

static void
await_answer(troupe_port *port)
{
    struct pollfd ready = {troupe_port_fd(port), POLLIN, 0};

    while (troupe_port_next(port) == NULL) {
        require(poll(&ready, 1, (int)(TEST_DEADLINE_NS / 1000000)) == 1,
            "no answer");
    }
}

/* Each of them far away, a receive timeout and a delayed message too. */
static troupe_status
start_timers(troupe_self *self, void *state, const void *arg)
{
    const uint64_t far_ns = TROUPE_S(1000);
    uint64_t zero = 0;

    (void)state;
    (void)arg;
    require(
        troupe_timer_once(self, 1, &ball, &zero, TROUPE_MS(1)) == TROUPE_OK &&
            troupe_timer_fixed_rate(self, 2, &ball, &zero, far_ns, far_ns) ==
                TROUPE_OK &&
            troupe_timer_once(self, 3, &ball, &zero, TROUPE_MS(1000)) ==
                TROUPE_OK &&
            troupe_receive_timeout(self, far_ns) == TROUPE_OK &&
            troupe_send_after(self, troupe_self_ref(self), &ball, &zero, far_ns,
                NULL) == TROUPE_OK,
        "no timer");
    (void)troupe_timer_cancel(self, 3);
    return TROUPE_OK;
}

static const troupe_actor_type timed_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "timed",
    .receive = echo,
    .start = start_timers,
};

static void
run_idle(bool has_timers)
{
    troupe_system *system = open_system(4);
    troupe_ref ref = TROUPE_NONE;
    uint64_t zero = 0;

    /* It has worked before: sleepers that never ran prove less. */
    for (uint32_t i = 0; i < 8; i++) {
        require(
            troupe_system_spawn(system, has_timers ? &timed_type : &echo_type,
                NULL, &ref) == TROUPE_OK,
            "no actor");
        troupe_post_tell(system, ref, &ball, &zero);
    }
    settle(system);
    mark("mark begin");
    (void)poll(NULL, 0, IDLE_MS);
    mark("mark end");
    require(troupe_system_destroy(system) == TROUPE_OK, "no end");
}

static void
run_post(void)
{
    troupe_system *system = open_system(4);
    troupe_port *port = NULL;
    troupe_ref ref = TROUPE_NONE;

    require(troupe_port_open(system, NULL, &port) == TROUPE_OK, "no port");
    require(troupe_system_spawn(system, &echo_type, NULL, &ref) == TROUPE_OK,
        "no actor");
    for (uint64_t i = 0; i < POSTS; i++) {
        settle(system);
        mark("mark begin");
        require(troupe_port_send(port, ref, &ball, &i) == TROUPE_OK, "no post");
        await_answer(port);
        mark("mark end");
    }
    troupe_port_close(port);
    require(troupe_system_destroy(system) == TROUPE_OK, "no end");
}

static void
run_pingpong(void)
{
    troupe_system *system = open_system(1);
    troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);
    uint64_t laps = LAPS / 2;
    troupe_port *port = NULL;
    struct player player;
    troupe_ref ref = TROUPE_NONE;

    require(troupe_port_open(system, NULL, &port) == TROUPE_OK, "no port");
    player.port = troupe_port_ref(port);
    options.arg = &player;
    options.arg_bytes = sizeof player;
    require(
        troupe_system_spawn(system, &player_type, &options, &ref) == TROUPE_OK,
        "no actor");
    troupe_post_tell(system, ref, &ball, &laps);
    await_answer(port);
    troupe_port_close(port);
    require(troupe_system_destroy(system) == TROUPE_OK, "no end");
}

static void
run_turns(troupe_system *system)
{
    require(troupe_system_run(system, 0, NULL) == TROUPE_OK, "no run");
}

/* While an alarm is pending that no run changes. */
static void
run_driven(void)
{
    troupe_system *system = open_system(0);
    troupe_throttle_options rate = TROUPE_INIT(troupe_throttle_options);
    troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);
    troupe_ref slow = TROUPE_NONE, quick = TROUPE_NONE;
    uint64_t zero = 0;

    rate.per_second = 1e-6;
    rate.burst = 1;
    options.throttle = &rate;
    require(
        troupe_system_spawn(system, &echo_type, &options, &slow) == TROUPE_OK &&
            troupe_system_spawn(system, &echo_type, NULL, &quick) == TROUPE_OK,
        "no actor");
    for (int i = 0; i < 2; i++) {
        troupe_post_tell(system, slow, &ball, &zero);
    }
    run_turns(system);
    require(troupe_depth(system, slow) == 1, "it does not wait");
    mark("mark begin");
    for (int i = 0; i < POSTS; i++) {
        troupe_post_tell(system, quick, &ball, &zero);
        run_turns(system);
    }
    mark("mark end");
    require(troupe_system_destroy(system) == TROUPE_OK, "no end");
}

int
main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";

    if (strcmp(what, "idle") == 0) {
        run_idle(false);
    } else if (strcmp(what, "timers") == 0) {
        run_idle(true);
    } else if (strcmp(what, "post") == 0) {
        run_post();
    } else if (strcmp(what, "pingpong") == 0) {
        run_pingpong();
    } else if (strcmp(what, "driven") == 0) {
        run_driven();
    } else {
        (void)fprintf(
            stderr, "usage: syscalls_probe idle|timers|post|pingpong|driven\n");
        return 2;
    }
    return 0;
}
