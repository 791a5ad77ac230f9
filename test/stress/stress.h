/* SPDX-License-Identifier: MIT */
#ifndef TEST_STRESS_STRESS_H
#define TEST_STRESS_STRESS_H

/*
 * What the stress programs share. Each is a plain main() that runs rounds until
 * its time is up; a round draws its shape from the seed and its own number,
 * opens a system, hammers it, counts, and closes it with the books checked.
 * What fails prints the command that repeats it and ends with status 1. So does
 * a program that makes no round for a long time, with a dump of its system.
 */

#include "support/alloc.h"
#include "support/await.h"
#include "support/seed.h"

#include <troupe/testkit.h>
#include <troupe/troupe.h>

#include <pthread.h>
#include <stdatomic.h>

#define STRESS_DEADLINE_NS TROUPE_S(30)

struct stress {
    uint64_t seed;
    uint64_t end_ns;
    uint32_t threads; /* 0 = the program's own choice */
    uint32_t workers; /* 0 = the program's own choice */
    uint64_t rounds;
};
extern struct stress stress;

/* --seed N --seconds S --threads N --workers N */
void stress_begin(int argc, char **argv);
/* Time for one more round; there is always a first one. */
bool stress_more(struct test_rng *round);
/* Prints how much was done: `count` of `what`. Returns the exit status. */
int stress_end(uint64_t count, const char *what);

#define STRESS_CHECK(expr, ...)                                                \
    ((expr) ? (void)0 : stress_fail(__FILE__, __LINE__, #expr, __VA_ARGS__))
void stress_fail(const char *file, int line, const char *expr,
    const char *format, ...) __attribute__((noreturn, format(printf, 4, 5)));

/* --workers, or one of 1, 2, 4, 8; --threads, or 1..most. */
uint32_t stress_workers(struct test_rng *rng);
uint32_t stress_threads(struct test_rng *rng, uint32_t most);

/* Now and then another thread gets the processor, or some time passes. */
void stress_jitter(struct test_rng *rng);
void stress_spin_ns(uint64_t ns);

/*
 * One system at a time is what a hang dumps. Every second round counts memory,
 * which must all have been given back at the end; the others do without, for
 * the counting synchronises threads that the library may not.
 */
troupe_system_options stress_options(uint32_t workers);
troupe_system *stress_open(const troupe_system_options *options);
/* Stops it, checks that nothing is queued and the books balance, destroys. */
void stress_close(troupe_system *system);
void stress_await_idle(troupe_system *system);
troupe_counters stress_counters(const troupe_system *system);

/* The behaviours keep what they count outside: their state is a pointer. */
#define STRESS_ACTOR(receive_)                                                 \
    {                                                                          \
        .size = TROUPE_OPTIONS(troupe_actor_type), .name = #receive_,          \
        .state_bytes = sizeof(void *), .receive = (receive_),                  \
        .start = stress_start                                                  \
    }
troupe_status stress_start(troupe_self *self, void *state, const void *arg);
#define STRESS_STATE(type, state) (*(type **)(state))
troupe_ref stress_spawn(
    troupe_system *system, const troupe_actor_type *type, void *what);
troupe_ref stress_spawn_below(
    troupe_self *self, const troupe_actor_type *type, void *what);

void stress_thread(pthread_t *thread, void *(*body)(void *), void *user);
void stress_join(pthread_t thread);
/* Zeroed; never NULL. */
void *stress_zeroed(size_t count, size_t bytes);

/* A ref in one word, so that threads can hand it over. */
static inline uint64_t
stress_pack(troupe_ref ref)
{
    return troupe_ref_key(ref);
}
static inline troupe_ref
stress_unpack(uint64_t key)
{
    return (troupe_ref){(uint32_t)key, (uint32_t)(key >> 32)};
}

#endif /* TEST_STRESS_STRESS_H */
