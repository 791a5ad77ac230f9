/* SPDX-License-Identifier: MIT */
#ifndef MODEL_ENGINE_H
#define MODEL_ENGINE_H

/*
 * Runs a scenario of a few threads on one thread, in an order that a seed or a
 * search decides: every atomic operation is a point where another thread may go
 * first, and every store may stay invisible to the others for a while.
 *
 *      scenario            engine                        memory
 *
 *     thread 0 --store--> [ 2 | 1 ] store buffer --flush--> word
 *     thread 1 <--load--- own buffer first, then ------------'
 *     thread 2 --rmw----> drains its own buffer, then acts on the word
 *
 * Store buffers are those of x86 (total store order): first in first out, one
 * per thread. Relaxed and release stores go in; read-modify-writes, seq_cst
 * stores, system calls and the end of a thread drain. Loads look into the
 * buffer of their own thread first. With `buffers` off the model is
 * sequentially consistent.
 *
 * Modes
 *   random  at each point a seed decides who goes on, what is flushed, who is
 *           woken too early. How often it changes its mind differs from one
 *           schedule to the next.
 *   pct     probabilistic concurrency testing (Burckhardt, Kothari, Musuvathi,
 *           Nagarakatte, ASPLOS 2010): threads have priorities, the highest
 *           runs, at a few drawn steps it drops to the lowest.
 *   dfs     depth-first search of all schedules with at most so many deviations
 *           from the default one, after Emmi, Qadeer and Rakamaric ("Delay-
 *           bounded scheduling", POPL 2011). By default a thread runs until it
 *           blocks, then whoever has waited longest, and stores are seen at
 *           once. A deviation is: somebody else goes on, a store stays in the
 *           buffer, a sleeper wakes early, the clock jumps. To be run with 0,
 *           1, 2 ... so that the first failure is a short one.
 *
 * Time is virtual. A sleeper with a deadline wakes when nobody else can run, or
 * early, if the mode decides so and the deadline is near: real clocks run while
 * a thread does not.
 *
 * What it finds: wrong protocols, lost wake-ups, deadlocks, endless loops, and
 * what needs a store to be seen late.
 *
 * What it does not find
 *   - What only a weaker machine does (arm64): loads are never reordered, and
 *     every store is a release, every load an acquire. A wrong order that x86
 *     happens to keep stays hidden; so does a missing read-modify-write next to
 *     another one.
 *   - Data races: plain accesses happen at once, between two points. That is
 *     ThreadSanitizer's question. For the same reason a thread must not read
 *     plainly what it has stored atomically: it does not look in the buffer.
 *   - Anything beyond the schedules that were run. `dfs` says how far it came.
 *   - A store of one width that is read with another one while it waits in a
 *     buffer: the engine stops there rather than answer wrongly.
 *   - 32-bit machines: values travel as uintptr_t.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MODEL_FOREVER UINT64_MAX
#define MODEL_THREADS_MAX 8

enum model_mode { MODEL_RANDOM, MODEL_PCT, MODEL_DFS };

enum model_verdict {
    MODEL_PASSED,
    MODEL_FAILED,   /* an assertion */
    MODEL_DEADLOCK, /* nobody can run, somebody has not ended */
    MODEL_LIVELOCK  /* more than max_steps */
};

struct model_options {
    enum model_mode mode;
    uint64_t seed;       /* random, pct */
    uint32_t deviations; /* dfs: at most so many */
    uint32_t horizon;    /* pct: steps of a usual schedule */
    uint64_t max_steps;
    bool buffers; /* false: sequentially consistent */
    bool trace;   /* prints every step */
};

struct model_result {
    enum model_verdict verdict;
    uint64_t steps;
    uint64_t signature; /* of who did what in which order */
    char text[256];     /* what went wrong */
};

/* Runs `run` as thread 0 until all threads have ended. */
void model_run(const struct model_options *options, void (*run)(void),
    struct model_result *result);

/*
 * dfs: model_run() takes the schedule that is up. Begin starts the search over;
 * next goes on to the next schedule, false when all of them have been run.
 */
void model_search_begin(void);
bool model_search_next(void);
/* The decisions of the last schedule that differ from the default: "12:1,40:2".
 */
void model_search_write(char *path, size_t bytes);
/* The schedule that is up becomes the written one. False: it is malformed. */
bool model_search_read(const char *path);

/* How far the current or last schedule has come. */
uint64_t model_steps(void);

/* --- for scenarios -------------------------------------------------------- */

/* A thread; at most MODEL_THREADS_MAX with thread 0. `name` is not copied. */
int model_spawn(const char *name, void (*run)(void *), void *user);
void model_join(int thread);

/* A number below `count`, chosen like everything else. */
uint32_t model_choose(uint32_t count);

/* Waits until all others sleep or have ended; time does not pass meanwhile. */
void model_await_sleep(void);
/* The same, but lets deadlines pass: nobody has one any more. */
void model_await_rest(void);

/* Another thread may go first here. */
void model_step(const char *where);
/* The same for the body of a loop that waits for another thread. */
void model_relax(const char *where);

/* Virtual; never goes back. */
uint64_t model_clock_ns(void);

/* Each thread has its own copy of these bytes, zero at its start. Once. */
void model_thread_local(void *at, size_t bytes);

/* What a trace calls this address. `name` is not copied. */
void model_name(const volatile void *at, const char *name);
/* A line in the trace. */
void model_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

void model_fail(const char *file, int line, const char *format, ...)
    __attribute__((noreturn, cold, format(printf, 3, 4)));

#define MODEL_ASSERT(expr)                                                     \
    ((expr) ? (void)0 : model_fail(__FILE__, __LINE__, "%s", #expr))
/* With the numbers that say why. */
#define MODEL_CHECK(expr, ...)                                                 \
    ((expr) ? (void)0 : model_fail(__FILE__, __LINE__, __VA_ARGS__))

/* --- for interleave.h and os.c -------------------------------------------- */

/* `where` is "operation file:line". `bytes` is 1, 2, 4 or 8. */
uint64_t model_load(const volatile void *at, size_t bytes, const char *where);
void model_store(volatile void *at, size_t bytes, uint64_t value, bool drain,
    const char *where);
bool model_cas(volatile void *at, size_t bytes, volatile void *expected,
    uint64_t value, const char *where);
/* Read-modify-writes return the value before. */
uint64_t model_swap(
    volatile void *at, size_t bytes, uint64_t value, const char *where);
uint64_t model_add(
    volatile void *at, size_t bytes, uint64_t value, const char *where);
uint64_t model_and(
    volatile void *at, size_t bytes, uint64_t value, const char *where);
uint64_t model_or(
    volatile void *at, size_t bytes, uint64_t value, const char *where);

/* Like FUTEX_WAIT and FUTEX_WAKE. False only when the deadline has passed. */
bool model_futex_wait(const volatile uint32_t *word, uint32_t value,
    uint64_t deadline_ns, const char *where);
uint32_t model_futex_wake(
    const volatile uint32_t *word, uint32_t count, const char *where);

#define MODEL_TEXT_(x) #x
#define MODEL_TEXT(x) MODEL_TEXT_(x)
#define MODEL_AT(operation) operation " " __FILE__ ":" MODEL_TEXT(__LINE__)

#endif /* MODEL_ENGINE_H */
