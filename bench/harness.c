/* SPDX-License-Identifier: MIT */
#include "harness.h"

#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

/*
 * The longest row takes seconds, a hundred times that under ThreadSanitizer;
 * what takes longer hangs.
 */
#define WAIT_LIMIT_NS TROUPE_S(300)
#define REST_LIMIT_NS TROUPE_S(300)

TROUPE_MSG_TYPE(done_message, int64_t, 3);

/*
 * One run per process, so what all its actors share is static. The countdown
 * has a cache line of its own, as a separate object would have.
 */
static troupe_ref done_port;
static _Alignas(64) atomic_llong countdown;
static atomic_llong countdown_sum;

static void
die(const char *what, const char *why)
{
    fprintf(
        stderr, "troupe-bench: %s%s%s\n", what, *why != '\0' ? ": " : "", why);
    fflush(NULL);
    _exit(1); /* other threads may run: no exit handlers */
}

void
bench_must(troupe_status status, const char *what)
{
    char text[256];

    if (status == TROUPE_OK) {
        return;
    }
    troupe_explain(status, text, sizeof text);
    die(what, text);
}

void
bench_expect(bool holds, const char *what)
{
    if (!holds) {
        die("wrong result", what);
    }
}

uint64_t
bench_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

long
bench_status_kb(const char *key)
{
    char line[256];
    size_t length = strlen(key);
    long kb = 0;
    FILE *file = fopen("/proc/self/status", "re");

    if (file == NULL) {
        return 0;
    }
    while (fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, key, length) == 0 && line[length] == ':') {
            kb = strtol(line + length + 1, NULL, 10);
        }
    }
    fclose(file);
    return kb;
}

/* The first number in a line, 0 if there is none. */
static uint32_t
number_in(const char *line)
{
    line += strcspn(line, "0123456789\n");
    return (uint32_t)strtoul(line, NULL, 10);
}

/* What troupe_system_describe() says in its line about workers. */
static uint32_t
workers_of(const troupe_system *system)
{
    char text[8192];
    char *rest = NULL;

    troupe_system_describe(system, text, sizeof text);
    for (char *line = strtok_r(text, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        const char *name =
            strncasecmp(line, "TROUPE_", 7) == 0 ? line + 7 : line;

        if (strncasecmp(name, "workers", 7) == 0) {
            return number_in(name);
        }
    }
    die("troupe_system_describe", "says nothing of workers");
    return 0;
}

void
bench_init(struct bench *bench, const struct bench_settings *settings)
{
    troupe_system_options options = TROUPE_INIT(troupe_system_options);

    memset(bench, 0, sizeof *bench);
    options.name = "bench";
    options.workers = settings->workers;
    options.mailbox_warn = TROUPE_WARN_NEVER; /* rows fill them on purpose */
    options.log.max_level = TROUPE_LOG_ERROR; /* and one fails on purpose */
    options.stop_grace_ns = REST_LIMIT_NS; /* a million actors may be alive */
    bench->scale = settings->scale;
    bench_must(troupe_system_create(&options, &bench->system),
        "cannot start a system");
    bench_must(troupe_port_open(bench->system, "done", &bench->port),
        "cannot open a port");
    done_port = troupe_port_ref(bench->port);
    bench->result.workers = workers_of(bench->system);
}

static void
check_books(const struct bench *bench)
{
    char text[256];
    troupe_counters now = TROUPE_INIT(troupe_counters);

    bench_must(troupe_counters_read(bench->system, &now), "counters");
    snprintf(text, sizeof text,
        "sent %llu, handled %llu, dropped %llu, dead %llu, refused %llu, "
        "queued %llu, stopped %llu",
        (unsigned long long)now.sent, (unsigned long long)now.handled,
        (unsigned long long)now.dropped, (unsigned long long)now.dead,
        (unsigned long long)now.refused, (unsigned long long)now.queued,
        (unsigned long long)now.stopped);
    if (now.sent != now.handled + now.dropped + now.dead + now.cancelled +
                        now.refused + now.queued) {
        die("the books do not balance", text);
    }
    if (now.dropped != bench->must_drop || now.refused != bench->must_refuse ||
        now.dead != bench->must_bury || now.queued != 0) {
        die("messages were not handled", text);
    }
    if (now.stopped < bench->must_end) {
        die("actors did not end", text);
    }
}

void
bench_fini(struct bench *bench)
{
    bench_must(troupe_system_await_idle(bench->system, REST_LIMIT_NS),
        "the system did not come to rest");
    check_books(bench);
    troupe_port_close(bench->port);
    bench_must(troupe_system_stop(bench->system), "cannot stop the system");
    bench_must(troupe_system_destroy(bench->system), "cannot free the system");
}

int64_t
bench_scaled(const struct bench *bench, int64_t base)
{
    int64_t scaled = (int64_t)((double)base * bench->scale);

    return scaled > 1 ? scaled : 1;
}

troupe_ref
bench_spawn(struct bench *bench, const troupe_actor_type *type, const void *arg,
    size_t arg_bytes)
{
    troupe_ref actor = TROUPE_NONE;
    troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);

    options.arg = arg;
    options.arg_bytes = arg_bytes;
    bench_must(
        troupe_system_spawn(bench->system, type, &options, &actor), type->name);
    return actor;
}

void
bench_post_go(struct bench *bench, troupe_ref to)
{
    bench_must(troupe_post(bench->system, to, &bench_go, NULL), "post");
}

void
bench_post_number(struct bench *bench, troupe_ref to, int64_t number)
{
    bench_must(troupe_post(bench->system, to, &bench_number, &number), "post");
}

void
bench_begin(struct bench *bench)
{
    bench_must(troupe_system_await_idle(bench->system, REST_LIMIT_NS),
        "the actors did not come to rest");
    bench->began_ns = bench_now_ns();
}

int64_t
bench_wait(struct bench *bench)
{
    struct pollfd readable = {
        .fd = troupe_port_fd(bench->port), .events = POLLIN};
    const troupe_msg *msg = NULL;
    uint64_t now_ns = 0;

    while ((msg = troupe_port_next(bench->port)) == NULL) {
        poll(&readable, 1, 1000);
        if (bench_now_ns() - bench->began_ns > WAIT_LIMIT_NS) {
            troupe_dump(bench->system, STDERR_FILENO);
            die("hangs", "the actors did not finish in 300 s");
        }
    }
    now_ns = bench_now_ns();
    bench->result.seconds = (double)(now_ns - bench->began_ns) * 1e-9;
    bench_expect(
        troupe_msg_is(msg, &done_message), "an unknown message on the port");
    return *troupe_payload(msg, int64_t);
}

void
bench_done(troupe_self *self, int64_t value)
{
    troupe_tell(self, done_port, &done_message, &value);
}

void
bench_count_down_from(int64_t count)
{
    atomic_store_explicit(&countdown_sum, 0, memory_order_relaxed);
    atomic_store_explicit(&countdown, count, memory_order_relaxed);
}

void
bench_count_down(troupe_self *self, int64_t value)
{
    if (value != 0) {
        atomic_fetch_add_explicit(&countdown_sum, value, memory_order_relaxed);
    }
    if (atomic_fetch_sub_explicit(&countdown, 1, memory_order_acq_rel) == 1) {
        bench_done(
            self, atomic_load_explicit(&countdown_sum, memory_order_relaxed));
    }
}

troupe_ref
bench_spawn_child(troupe_self *self, const troupe_actor_type *type)
{
    troupe_ref child = TROUPE_NONE;

    bench_must(troupe_spawn(self, type, NULL, &child), type->name);
    return child;
}
