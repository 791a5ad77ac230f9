/* SPDX-License-Identifier: MIT */

/* Is the engine to be trusted? A plain program: it prints what fails. */

#include "engine.h"
#include "interleave.h"

#include <stdio.h>
#include <string.h>

static uint32_t failures;

#define EXPECT(expr)                                                           \
    ((expr) ? (void)0                                                          \
            : (void)(failures++,                                               \
                  printf("%s:%d: %s\n", __FILE__, __LINE__, #expr)))

static struct model_options
options_of(enum model_mode mode, uint64_t seed)
{
    return (struct model_options){
        .mode = mode,
        .seed = seed,
        .horizon = 40,
        .max_steps = 2000,
        .deviations = 3,
        .buffers = true,
    };
}

static struct model_result
run_seed(enum model_mode mode, uint64_t seed, void (*run)(void))
{
    struct model_options options = options_of(mode, seed);
    struct model_result result;

    model_run(&options, run, &result);
    return result;
}

static void
run_two(void (*first)(void *), void (*second)(void *))
{
    int a = model_spawn("a", first, NULL);
    int b = model_spawn("b", second, NULL);

    model_join(a);
    model_join(b);
}

/* --- litmus --------------------------------------------------------------- */

static struct {
    uint32_t x, y;
    uint32_t a_saw, b_saw;
    uint32_t outcomes; /* bit 2 * a_saw + b_saw */
    bool drains;
} litmus;

static void
begin_litmus(void)
{
    litmus.x = litmus.y = litmus.a_saw = litmus.b_saw = 0;
}

static void
end_litmus(void)
{
    litmus.outcomes |= 1u << (2 * litmus.a_saw + litmus.b_saw);
}

static void
store_x_load_y(void *user)
{
    (void)user;
    if (litmus.drains) {
        trp_store_seq_cst(&litmus.x, 1);
    } else {
        trp_store_release(&litmus.x, 1);
    }
    litmus.a_saw = trp_load_seq_cst(&litmus.y);
}

static void
store_y_load_x(void *user)
{
    (void)user;
    if (litmus.drains) {
        trp_store_seq_cst(&litmus.y, 1);
    } else {
        trp_store_release(&litmus.y, 1);
    }
    litmus.b_saw = trp_load_seq_cst(&litmus.x);
}

static void
store_buffering(void)
{
    begin_litmus();
    run_two(store_x_load_y, store_y_load_x);
    end_litmus();
}

static void
store_x_then_y(void *user)
{
    (void)user;
    trp_store_relaxed(&litmus.x, 1);
    trp_store_release(&litmus.y, 1);
}

static void
load_y_then_x(void *user)
{
    (void)user;
    litmus.a_saw = trp_load_acquire(&litmus.y);
    litmus.b_saw = trp_load_relaxed(&litmus.x);
}

static void
message_passing(void)
{
    begin_litmus();
    run_two(store_x_then_y, load_y_then_x);
    end_litmus();
}

/* All outcomes of all schedules that this mode draws. */
static uint32_t
outcomes_of(enum model_mode mode, void (*run)(void), bool buffers)
{
    struct model_options options = options_of(mode, 0);
    struct model_result result;

    options.buffers = buffers;
    litmus.outcomes = 0;
    model_search_begin();
    for (uint64_t seed = 0; seed < 3000; seed++) {
        options.seed = seed;
        model_run(&options, run, &result);
        EXPECT(result.verdict == MODEL_PASSED);
        if (mode == MODEL_DFS && !model_search_next()) {
            break;
        }
    }
    return litmus.outcomes;
}

static void
litmus_tests_show_what_x86_shows(void)
{
    for (enum model_mode mode = MODEL_RANDOM; mode <= MODEL_DFS; mode++) {
        litmus.drains = false;
        EXPECT(outcomes_of(mode, store_buffering, true) == 0xf);
        EXPECT(outcomes_of(mode, store_buffering, false) == 0xe);
        litmus.drains = true;
        EXPECT(outcomes_of(mode, store_buffering, true) == 0xe);
        /* Not y = 1 and x = 0: stores leave in their order. */
        EXPECT(outcomes_of(mode, message_passing, true) == 0xb);
    }
}

/* --- buffers of one thread ------------------------------------------------ */

static struct {
    uint64_t word;
    uint8_t byte;
} own;

static void
read_what_was_written(void *user)
{
    uint64_t expected = 7;

    (void)user;
    trp_store_relaxed(&own.word, 7);
    MODEL_ASSERT(trp_load_relaxed(&own.word) == 7);
    MODEL_ASSERT(!trp_cas_relaxed(&own.word, &(uint64_t){6}, 1));
    MODEL_ASSERT(trp_cas_relaxed(&own.word, &expected, 8));
    MODEL_ASSERT(own.word == 8);
    MODEL_ASSERT(trp_sub_relaxed(&own.word, 9) == 8);
    MODEL_ASSERT(own.word == UINT64_MAX);
    trp_store_relaxed(&own.byte, (uint8_t)300);
    MODEL_ASSERT(trp_load_relaxed(&own.byte) == 44);
    MODEL_ASSERT(trp_or_acq_rel(&own.byte, 3) == 44);
    MODEL_ASSERT(trp_and_acq_rel(&own.byte, ~(uint8_t)1) == 47);
    MODEL_ASSERT(trp_swap_acq_rel(&own.byte, 0) == 46);
    for (uint32_t i = 0; i < 40; i++) { /* more than a buffer holds */
        trp_store_relaxed(&own.word, i);
    }
    MODEL_ASSERT(trp_load_relaxed(&own.word) == 39);
}

static void
do_nothing(void *user)
{
    (void)user;
    for (int i = 0; i < 5; i++) {
        model_step("nothing");
    }
}

static void
own_buffer(void)
{
    memset(&own, 0, sizeof own);
    run_two(read_what_was_written, do_nothing);
    MODEL_ASSERT(own.word == 39);
}

static void
a_thread_sees_its_own_stores(void)
{
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct model_result result = run_seed(MODEL_RANDOM, seed, own_buffer);

        EXPECT(result.verdict == MODEL_PASSED);
    }
}

/* --- seeds ---------------------------------------------------------------- */

static uint32_t counter;

static void
count_unsafely(void *user)
{
    (void)user;
    for (int i = 0; i < 3; i++) {
        trp_store_relaxed(&counter, trp_load_relaxed(&counter) + 1);
    }
}

static void
lost_update(void)
{
    counter = 0;
    run_two(count_unsafely, count_unsafely);
    MODEL_CHECK(counter == 6, "%u", counter);
}

static void
equal_seeds_give_equal_schedules(void)
{
    for (enum model_mode mode = MODEL_RANDOM; mode <= MODEL_PCT; mode++) {
        uint64_t first = run_seed(mode, 0, lost_update).signature;
        uint32_t different = 0;

        for (uint64_t seed = 1; seed <= 100; seed++) {
            struct model_result one = run_seed(mode, seed, lost_update);
            struct model_result other = run_seed(mode, seed, lost_update);

            EXPECT(one.signature == other.signature);
            EXPECT(one.verdict == other.verdict);
            EXPECT(strcmp(one.text, other.text) == 0);
            different += one.signature != first;
        }
        EXPECT(different > 50);
    }
}

/* --- search --------------------------------------------------------------- */

/* Schedules until one fails; 0: none of them does. */
static uint32_t
search(void (*run)(void), uint32_t deviations, struct model_result *result)
{
    struct model_options options = options_of(MODEL_DFS, 0);
    uint32_t count = 0;

    options.deviations = deviations;
    model_search_begin();
    do {
        count++;
        model_run(&options, run, result);
        if (result->verdict != MODEL_PASSED) {
            return count;
        }
    } while (model_search_next());
    return 0;
}

/* Who took its steps when: a bit for each of them, set for b. */
static uint32_t order;
static uint32_t orders; /* bit n: order n was seen */

static void
step_twice(void *user)
{
    (void)user;
    for (int i = 0; i < 2; i++) {
        model_step("step");
        order = 2 * order + (uint32_t)(uintptr_t)user;
    }
}

static void
two_by_two(void)
{
    int a = model_spawn("a", step_twice, (void *)0);
    int b = model_spawn("b", step_twice, (void *)1);

    order = 0;
    model_join(a);
    model_join(b);
    orders |= 1u << order;
}

static void
search_is_complete_and_finds_the_shortest(void)
{
    struct model_result result;
    struct model_result again;
    struct model_options options = options_of(MODEL_DFS, 0);
    char path[256];

    EXPECT(search(lost_update, 0, &result) == 0);
    EXPECT(search(lost_update, 1, &result) != 0);
    EXPECT(result.verdict == MODEL_FAILED);

    /* The written path repeats the schedule. */
    model_search_write(path, sizeof path);
    EXPECT(model_search_read(path));
    options.deviations = 1;
    model_run(&options, lost_update, &again);
    EXPECT(again.signature == result.signature);
    EXPECT(strcmp(again.text, result.text) == 0);
    EXPECT(!model_search_read("1:2,"));
    EXPECT(!model_search_read("x"));

    orders = 0;
    EXPECT(search(two_by_two, 0, &result) == 0);
    EXPECT(orders == 1u << 3);
    orders = 0;
    EXPECT(search(two_by_two, 9, &result) == 0);
    EXPECT(orders ==
           (1u << 3 | 1u << 5 | 1u << 6 | 1u << 9 | 1u << 10 | 1u << 12));
}

/* --- sleep ---------------------------------------------------------------- */

static struct {
    uint32_t ready, word;
    bool looks_again;
} park;

static void
sleeper(void *user)
{
    uint32_t seen = trp_load_acquire(&park.word);

    (void)user;
    if (!park.looks_again) {
        seen = 0;
    }
    while (trp_load_acquire(&park.ready) == 0) {
        if (!park.looks_again) {
            model_futex_wait(&(uint32_t){0}, 0, MODEL_FOREVER, "wait");
        }
        model_futex_wait(&park.word, seen, MODEL_FOREVER, "wait");
    }
}

static void
waker(void *user)
{
    (void)user;
    trp_store_release(&park.ready, 1);
    trp_add_acq_rel(&park.word, 1);
    model_futex_wake(&park.word, 1, "wake");
}

static void
parking(void)
{
    park.ready = park.word = 0;
    run_two(sleeper, waker);
}

static void
lost_wakeups_are_deadlocks(void)
{
    struct model_result result;

    park.looks_again = true;
    EXPECT(search(parking, 2, &result) == 0);
    park.looks_again = false;
    EXPECT(search(parking, 0, &result) != 0);
    EXPECT(result.verdict == MODEL_DEADLOCK);
    EXPECT(strstr(result.text, "a sleeps on") != NULL);
    EXPECT(strstr(result.text, "main joins a") != NULL);
}

static void
spin(void *user)
{
    (void)user;
    while (trp_load_relaxed(&park.ready) == 0) {
        model_relax("spin");
    }
}

static void
spin_for_ever(void)
{
    park.ready = 0;
    run_two(spin, do_nothing);
}

static void
spin_until_stored(void)
{
    park.ready = 0;
    run_two(spin, waker);
}

static void
endless_loops_are_found_and_fair_ones_end(void)
{
    for (enum model_mode mode = MODEL_RANDOM; mode <= MODEL_DFS; mode++) {
        model_search_begin();
        EXPECT(run_seed(mode, 1, spin_for_ever).verdict == MODEL_LIVELOCK);
        model_search_begin();
        for (uint64_t seed = 0; seed < 200; seed++) {
            EXPECT(run_seed(mode, seed, spin_until_stored).verdict ==
                   MODEL_PASSED);
            if (mode == MODEL_DFS && !model_search_next()) {
                break;
            }
        }
    }
}

static uint64_t woken_ns;

static void
sleep_a_millisecond(void *user)
{
    static const uint32_t word = 0;
    uint64_t until_ns = model_clock_ns() + 1000000;

    (void)user;
    while (model_futex_wait(&word, 0, until_ns, "wait")) {
    }
    woken_ns = model_clock_ns();
    MODEL_ASSERT(woken_ns >= until_ns);
}

static void
deadlines(void)
{
    int timed = model_spawn("timed", sleep_a_millisecond, NULL);

    woken_ns = 0;
    model_await_rest();
    MODEL_ASSERT(woken_ns != 0);
    model_join(timed);
}

static void
sleepers_wake_at_their_deadline(void)
{
    for (uint64_t seed = 0; seed < 100; seed++) {
        EXPECT(run_seed(MODEL_RANDOM, seed, deadlines).verdict == MODEL_PASSED);
    }
}

/* --- thread-local memory -------------------------------------------------- */

static uint64_t local;

static void
keep_a_number(void *user)
{
    MODEL_ASSERT(local == 0);
    local = (uint64_t)(uintptr_t)user;
    for (int i = 0; i < 5; i++) {
        model_step("look");
        MODEL_ASSERT(local == (uint64_t)(uintptr_t)user);
    }
}

static void
locals(void)
{
    int a = model_spawn("a", keep_a_number, (void *)1);
    int b = model_spawn("b", keep_a_number, (void *)2);

    model_join(a);
    model_join(b);
    MODEL_ASSERT(local == 0);
}

static void
each_thread_has_its_own_copy(void)
{
    for (uint64_t seed = 0; seed < 100; seed++) {
        EXPECT(run_seed(MODEL_RANDOM, seed, locals).verdict == MODEL_PASSED);
    }
}

/* --- schedules that end in the middle ------------------------------------- */

static uint32_t runs;

static void
count_run(void *user)
{
    (void)user;
    runs++;
}

static void
fail_early(void)
{
    model_spawn("a", count_run, NULL);
    model_spawn("b", count_run, NULL);
    for (int i = 0; i < 3; i++) {
        model_step("wait");
    }
    MODEL_ASSERT(false);
}

static void
run_both(void)
{
    runs = 0;
    run_two(count_run, count_run);
    MODEL_ASSERT(runs == 2);
}

/* Threads are left wherever they are, also just before their end. */
static void
a_failure_leaves_nothing_to_the_next_schedule(void)
{
    for (uint64_t seed = 0; seed < 200; seed++) {
        EXPECT(
            run_seed(MODEL_RANDOM, seed, fail_early).verdict == MODEL_FAILED);
        EXPECT(run_seed(MODEL_RANDOM, seed, run_both).verdict == MODEL_PASSED);
    }
}

int
main(void)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } tests[] = {
        {"litmus_tests_show_what_x86_shows", litmus_tests_show_what_x86_shows},
        {"a_thread_sees_its_own_stores", a_thread_sees_its_own_stores},
        {"equal_seeds_give_equal_schedules", equal_seeds_give_equal_schedules},
        {"search_is_complete_and_finds_the_shortest",
            search_is_complete_and_finds_the_shortest},
        {"lost_wakeups_are_deadlocks", lost_wakeups_are_deadlocks},
        {"endless_loops_are_found_and_fair_ones_end",
            endless_loops_are_found_and_fair_ones_end},
        {"sleepers_wake_at_their_deadline", sleepers_wake_at_their_deadline},
        {"each_thread_has_its_own_copy", each_thread_has_its_own_copy},
        {"a_failure_leaves_nothing_to_the_next_schedule",
            a_failure_leaves_nothing_to_the_next_schedule},
    };

    model_thread_local(&local, sizeof local);
    for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++) {
        uint32_t before = failures;

        tests[i].run();
        printf(
            "%s %s\n", failures == before ? "ok    " : "FAILED", tests[i].name);
    }
    return failures != 0;
}
