/* SPDX-License-Identifier: MIT */
#include "stress.h"

#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct stress stress;

static const char *program;
static uint32_t seconds;
static struct test_alloc memory;
static _Atomic uint64_t progress;
static _Atomic(troupe_system *) shown;

static void
say_how_to_repeat(void)
{
    (void)fprintf(stderr,
        "round %" PRIu64 "; to repeat: %s --seed %" PRIu64
        " --seconds %u --threads %u --workers %u\n",
        stress.rounds, program, stress.seed, seconds, stress.threads,
        stress.workers);
}

void
stress_fail(
    const char *file, int line, const char *expr, const char *format, ...)
{
    va_list args;

    (void)fprintf(stderr, "%s:%d: %s: ", file, line, expr);
    va_start(args, format);
    (void)vfprintf(stderr, format, args);
    va_end(args);
    (void)fputc('\n', stderr);
    say_how_to_repeat();
    _exit(1);
}

/* A round takes a second, 20 under sanitizers: 200 without one is a hang. */
static void *
watch_progress(void *user)
{
    uint64_t seen = 0;

    (void)user;
    for (int still = 0; still < 200; still++) {
        uint64_t now = atomic_load(&progress);

        still = now == seen ? still : 0;
        seen = now;
        (void)poll(NULL, 0, 1000);
    }
    (void)fprintf(stderr, "%s: hangs\n", program);
    if (atomic_load(&shown) != NULL) {
        troupe_dump(atomic_load(&shown), STDERR_FILENO);
    }
    say_how_to_repeat();
    _exit(1);
}

static uint64_t
number(const char *option, const char *text)
{
    char *end;
    uint64_t value = text == NULL ? 0 : strtoull(text, &end, 0);

    if (text == NULL || *text == '\0' || *end != '\0') {
        (void)fprintf(stderr, "%s: %s wants a number\n", program, option);
        exit(2);
    }
    return value;
}

void
stress_begin(int argc, char **argv)
{
    pthread_t watcher;

    program = argv[0];
    seconds = 2;
    stress.seed = test_clock_ns();
    for (int i = 1; i < argc; i += 2) {
        if (strcmp(argv[i], "--seed") == 0) {
            stress.seed = number(argv[i], argv[i + 1]);
        } else if (strcmp(argv[i], "--seconds") == 0) {
            seconds = (uint32_t)number(argv[i], argv[i + 1]);
        } else if (strcmp(argv[i], "--threads") == 0) {
            stress.threads = (uint32_t)number(argv[i], argv[i + 1]);
        } else if (strcmp(argv[i], "--workers") == 0) {
            stress.workers = (uint32_t)number(argv[i], argv[i + 1]);
        } else {
            (void)fprintf(stderr,
                "usage: %s [--seed N] [--seconds S] [--threads N] "
                "[--workers N]\n",
                program);
            exit(2);
        }
    }
    stress.end_ns = test_clock_ns() + TROUPE_S(seconds);
    stress_thread(&watcher, watch_progress, NULL);
    (void)pthread_detach(watcher);
}

bool
stress_more(struct test_rng *round)
{
    if (stress.rounds > 0 && test_clock_ns() >= stress.end_ns) {
        return false;
    }
    stress.rounds++;
    atomic_fetch_add(&progress, 1);
    round->state = stress.seed + stress.rounds * UINT64_C(0x9e3779b97f4a7c15);
    (void)test_random(round);
    return true;
}

int
stress_end(uint64_t count, const char *what)
{
    STRESS_CHECK(test_alloc_is_empty(&memory), "memory was not given back");
    (void)printf("%s: %" PRIu64 " rounds, %" PRIu64 " %s, seed %" PRIu64 "\n",
        program, stress.rounds, count, what, stress.seed);
    return 0;
}

uint32_t
stress_workers(struct test_rng *rng)
{
    uint32_t drawn = 1u << test_random_below(rng, 4);

    return stress.workers != 0 ? stress.workers : drawn;
}

uint32_t
stress_threads(struct test_rng *rng, uint32_t most)
{
    uint32_t drawn = 1 + test_random_below(rng, most);

    if (stress.threads == 0) {
        return drawn;
    }
    return stress.threads < most ? stress.threads : most;
}

void
stress_spin_ns(uint64_t ns)
{
    uint64_t end_ns = test_clock_ns() + ns;

    while (test_clock_ns() < end_ns) {
    }
}

void
stress_jitter(struct test_rng *rng)
{
    uint32_t drawn = test_random_below(rng, 512);

    if (drawn < 4) {
        sched_yield();
    } else if (drawn == 4) {
        stress_spin_ns(test_random_below(rng, 20000));
    }
}

troupe_system_options
stress_options(uint32_t workers)
{
    troupe_system_options options = TROUPE_INIT(troupe_system_options);

    options.flags = TROUPE_SYSTEM_IGNORE_ENV;
    options.workers = workers;
    options.log.max_level = TROUPE_LOG_ERROR;
    options.stop_grace_ns = 4 * STRESS_DEADLINE_NS;
    if (stress.rounds % 2 == 0) {
        options.alloc = test_alloc;
        options.free = test_free;
        options.alloc_user = &memory;
    }
    return options;
}

troupe_system *
stress_open(const troupe_system_options *options)
{
    troupe_system *system = NULL;
    troupe_status status = troupe_system_create(options, &system);
    char text[256];

    (void)troupe_explain(status, text, sizeof text);
    STRESS_CHECK(status == TROUPE_OK, "%s", text);
    atomic_store(&shown, system);
    return system;
}

void
stress_close(troupe_system *system)
{
    troupe_status status = troupe_system_stop(system);
    troupe_counters counters;

    if (status != TROUPE_OK) {
        troupe_dump(system, STDERR_FILENO);
    }
    STRESS_CHECK(status == TROUPE_OK, "%s", troupe_status_name(status));
    counters = stress_counters(system);
    STRESS_CHECK(counters.queued == 0 && counters.actors == 0,
        "%" PRIu64 " messages, %" PRIu64 " actors", counters.queued,
        counters.actors);
    STRESS_CHECK(counters.started == counters.stopped,
        "%" PRIu64 " started, %" PRIu64 " stopped", counters.started,
        counters.stopped);
    STRESS_CHECK(troupe_books_balance(system), "the books are off");
    (void)atomic_compare_exchange_strong(
        &shown, &(troupe_system *){system}, NULL);
    status = troupe_system_destroy(system);
    STRESS_CHECK(status == TROUPE_OK, "%s", troupe_status_name(status));
}

void
stress_await_idle(troupe_system *system)
{
    troupe_status status =
        troupe_system_await_idle(system, 4 * STRESS_DEADLINE_NS);

    if (status != TROUPE_OK) {
        troupe_dump(system, STDERR_FILENO);
    }
    STRESS_CHECK(status == TROUPE_OK, "%s", troupe_status_name(status));
}

troupe_counters
stress_counters(const troupe_system *system)
{
    troupe_counters counters = TROUPE_INIT(troupe_counters);
    troupe_status status = troupe_counters_read(system, &counters);

    STRESS_CHECK(status == TROUPE_OK, "%s", troupe_status_name(status));
    return counters;
}

troupe_status
stress_start(troupe_self *self, void *state, const void *arg)
{
    (void)self;
    *(void **)state = *(void *const *)arg;
    return TROUPE_OK;
}

static troupe_spawn_options
options_for(void **what)
{
    troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);

    options.arg = what;
    options.arg_bytes = sizeof *what;
    return options;
}

troupe_ref
stress_spawn(troupe_system *system, const troupe_actor_type *type, void *what)
{
    troupe_spawn_options options = options_for(&what);
    troupe_ref actor = TROUPE_NONE;
    troupe_status status = troupe_system_spawn(system, type, &options, &actor);

    STRESS_CHECK(status == TROUPE_OK, "%s", troupe_status_name(status));
    return actor;
}

troupe_ref
stress_spawn_below(troupe_self *self, const troupe_actor_type *type, void *what)
{
    troupe_spawn_options options = options_for(&what);
    troupe_ref actor = TROUPE_NONE;
    troupe_status status = troupe_spawn(self, type, &options, &actor);

    STRESS_CHECK(status == TROUPE_OK, "%s", troupe_status_name(status));
    return actor;
}

void
stress_thread(pthread_t *thread, void *(*body)(void *), void *user)
{
    int error = pthread_create(thread, NULL, body, user);

    STRESS_CHECK(error == 0, "%s", strerror(error));
}

void
stress_join(pthread_t thread)
{
    int error = pthread_join(thread, NULL);

    STRESS_CHECK(error == 0, "%s", strerror(error));
}

void *
stress_zeroed(size_t count, size_t bytes)
{
    void *block = calloc(count, bytes);

    STRESS_CHECK(block != NULL, "out of memory");
    return block;
}
