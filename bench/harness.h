/* SPDX-License-Identifier: MIT */
#ifndef BENCH_HARNESS_H
#define BENCH_HARNESS_H

/*
 * One run of one row, in a process of its own: a fresh system, a port on which
 * the main thread sleeps until the actors are done, the clock, and the checks
 * that come before a result counts. Whatever is wrong ends the process with a
 * line on stderr and exit 1, so no row has to carry an error back.
 */

#include <troupe/troupe.h>

/* What the command line asks of a run. */
struct bench_settings {
    uint32_t workers; /* 0 = the system's default */
    double scale;     /* multiplies the counts marked * in peers/PARAMS.md */
};

/* What a run says. Travels through a pipe between copies of one program. */
struct bench_result {
    uint32_t workers; /* read back from the system */
    double seconds;
    uint64_t messages;
    long rss_kb;   /* peak of the process; growth for the memory rows */
    char note[64]; /* more figures for people, or "" */
};

struct bench {
    troupe_system *system;
    troupe_port *port;
    double scale;
    uint64_t began_ns;
    uint64_t must_end;    /* actors that must have ended by themselves */
    uint64_t must_drop;   /* messages that a full mailbox discarded ... */
    uint64_t must_refuse; /* ... or gave back */
    uint64_t must_bury;   /* dead letters; answers that nobody waits for */
    struct bench_result result;
};

/* A driver pauses after so many messages: it sends itself one. */
enum { BENCH_CHUNK = 1000 };

TROUPE_MSG_TYPE_EMPTY(bench_go, 1);
TROUPE_MSG_TYPE(bench_number, int64_t, 2);

/* --- the main thread ------------------------------------------------------ */

void bench_init(struct bench *bench, const struct bench_settings *settings);
/* Checks the books of a run that has ended and takes the system down. */
void bench_fini(struct bench *bench);

/* `base` times the scale, at least 1. */
int64_t bench_scaled(const struct bench *bench, int64_t base);

troupe_ref bench_spawn(struct bench *bench, const troupe_actor_type *type,
    const void *arg, size_t arg_bytes);
void bench_post_go(struct bench *bench, troupe_ref to);
void bench_post_number(struct bench *bench, troupe_ref to, int64_t number);

/* Lets the actors spawned so far come to rest, then starts the clock. */
void bench_begin(struct bench *bench);
/* Sleeps until an actor calls bench_done; stops the clock; what it said. */
int64_t bench_wait(struct bench *bench);

uint64_t bench_now_ns(void);
long bench_status_kb(const char *key); /* of /proc/self/status */

/* --- inside behaviours ---------------------------------------------------- */

void bench_done(troupe_self *self, int64_t value);

/* The last of `count` calls says that it is done, with the sum of the values.
 */
void bench_count_down_from(int64_t count);
void bench_count_down(troupe_self *self, int64_t value);

troupe_ref bench_spawn_child(troupe_self *self, const troupe_actor_type *type);

static inline void
bench_again(troupe_self *self) /* how a driver yields */
{
    troupe_tell(self, troupe_self_ref(self), &bench_go, NULL);
}

static inline void
bench_tell_number(troupe_self *self, troupe_ref to, int64_t number)
{
    troupe_tell(self, to, &bench_number, &number);
}

/* --- both ------------------------------------------------------------------
 */

void bench_must(troupe_status status, const char *what);
void bench_expect(bool holds, const char *what);

/* The generator of PARAMS.md. */
static inline uint64_t
bench_random_seed(uint64_t id)
{
    return id * UINT64_C(0x9E3779B97F4A7C15) + 1;
}

static inline uint32_t
bench_random(uint64_t *x, uint32_t below)
{
    *x = *x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*x >> 33) % below;
}

#endif /* BENCH_HARNESS_H */
