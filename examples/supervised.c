/* SPDX-License-Identifier: MIT */
/*
 * A worker that recovers. Its parent decides what comes of a failure: bad input
 * is skipped, a lost connection is made anew by a restart, and whoever loses it
 * too often is given up. The address, `worker`, stays the same all the time.
 */
#include <troupe/troupe.h>

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

enum { CODE_BAD_INPUT = 1, CODE_LOST = 100 };

TROUPE_MSG_TYPE(job, int32_t, 1);     /* 0: the connection breaks */
TROUPE_MSG_TYPE(answer, uint32_t, 2); /* jobs since the connection was made */

/* --- the worker ----------------------------------------------------------- */

struct worker {
    uint32_t jobs;
};

/* Runs again after each restart, on a zeroed state: here it would connect. */
static troupe_status
worker_start(troupe_self *self, void *state, const void *arg)
{
    (void)self;
    (void)state;
    (void)arg;
    puts("worker: connected");
    return TROUPE_OK;
}

/* On the old state, before a restart and at the end: here it would close. */
static void
worker_stop(troupe_self *self, void *state, const troupe_exit *why)
{
    (void)self;
    (void)state;
    printf("worker: closed, code %" PRId32 "\n", why->code);
}

static troupe_verdict
worker_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct worker *worker = state;
    int32_t number = *troupe_payload(msg, int32_t);

    if (number < 0) {
        return troupe_fail(self, CODE_BAD_INPUT);
    }
    if (number == 0) {
        return troupe_fail(self, CODE_LOST);
    }
    worker->jobs++;
    troupe_reply(self, &answer, &worker->jobs);
    return TROUPE_CONTINUE;
}

static const troupe_actor_type worker_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "worker",
    .state_bytes = sizeof(struct worker),
    .receive = worker_receive,
    .start = worker_start,
    .stop = worker_stop,
};

/* --- its parent ----------------------------------------------------------- */

static const troupe_rule rules[] = {
    {CODE_BAD_INPUT, CODE_BAD_INPUT, TROUPE_DIRECTIVE_RESUME},
    {CODE_LOST, CODE_LOST, TROUPE_DIRECTIVE_RESTART},
};

static const troupe_backoff pause = {
    .size = TROUPE_OPTIONS(troupe_backoff),
    .min_ns = TROUPE_MS(1),
    .max_ns = TROUPE_MS(100),
};

static const troupe_supervision supervision = {
    .size = TROUPE_OPTIONS(troupe_supervision),
    .rules = rules,
    .rule_count = sizeof rules / sizeof rules[0],
    .otherwise = TROUPE_DIRECTIVE_ESCALATE, /* what nobody has thought of */
    .max_restarts = 2,
    .window_ns = TROUPE_S(60),
    .backoff = &pause,
};

static troupe_status
office_start(troupe_self *self, void *state, const void *arg)
{
    const troupe_spawn_options options = {
        .size = TROUPE_OPTIONS(troupe_spawn_options), .name = "worker"};
    troupe_ref worker;

    (void)state;
    (void)arg;
    return troupe_spawn(self, &worker_type, &options, &worker);
}

static troupe_verdict
office_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)self;
    (void)state;
    (void)msg;
    return TROUPE_UNHANDLED;
}

static const troupe_spawn_options office_defaults = {
    .size = TROUPE_OPTIONS(troupe_spawn_options),
    .children = &supervision,
};

static const troupe_actor_type office_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "office",
    .receive = office_receive,
    .start = office_start,
    .defaults = &office_defaults,
};

/* --- the program ---------------------------------------------------------- */

static void
check(troupe_status status)
{
    char text[256];

    if (status != TROUPE_OK) {
        (void)troupe_explain(status, text, sizeof text);
        (void)fprintf(stderr, "%s\n", text);
        exit(EXIT_FAILURE);
    }
}

static const troupe_msg *
next_message(troupe_port *port)
{
    struct pollfd fd = {.fd = troupe_port_fd(port), .events = POLLIN};
    const troupe_msg *msg;

    while ((msg = troupe_port_next(port)) == NULL) {
        (void)poll(&fd, 1, -1);
    }
    return msg;
}

/* Nobody answers a job that fails the worker: the message is consumed. */
static void
give(troupe_port *port, troupe_ref worker, int32_t number)
{
    if (number <= 0) {
        printf("job %" PRId32 "\n", number);
        (void)fflush(stdout);
    }
    check(troupe_port_send(port, worker, &job, &number));
    if (number > 0) {
        printf("job %" PRId32 ": done, number %" PRIu32
               " since it was connected\n",
            number, *troupe_payload(next_message(port), uint32_t));
    }
}

int
main(void)
{
    static const int32_t jobs[] = {7, 8, -1, 9, 0, 7, 0, 8};
    troupe_system_options options = TROUPE_INIT(troupe_system_options);
    const troupe_spawn_options spawn = {
        .size = TROUPE_OPTIONS(troupe_spawn_options), .name = "office"};
    troupe_system *system;
    troupe_port *port;
    troupe_ref office;
    troupe_ref worker;
    const troupe_exit *end;

    options.log.max_level = TROUPE_LOG_OFF; /* it would tell of each failure */
    check(troupe_system_create(&options, &system));
    check(troupe_port_open(system, NULL, &port));
    check(troupe_system_spawn(system, &office_type, &spawn, &office));
    check(troupe_system_await_idle(system, TROUPE_FOREVER));
    check(troupe_lookup(system, "/user/office/worker", &worker));
    check(troupe_port_watch(port, worker));
    for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++) {
        give(port, worker, jobs[i]);
    }
    give(port, worker, 0); /* for the third time */
    end = troupe_down(next_message(port));
    printf("gave it up: %s with code %" PRId32 "\n",
        end->kind == TROUPE_EXIT_FAILED ? "failed" : "ended", end->code);
    troupe_port_close(port);
    check(troupe_system_stop(system));
    check(troupe_system_destroy(system));
    return 0;
}
