/* SPDX-License-Identifier: MIT */

/*
 * The lock of lib/os/futex.h. Oracle: one holder at a time, what the last one
 * wrote is seen, everybody gets it.
 */

#include "engine.h"
#include "interleave.h"
#include "os/futex.h"
#include "runner.h"

#include <string.h>

static struct trp_lock lock;
static uint32_t holders;
static uint32_t count;

static void
hold_twice(void *user)
{
    (void)user;
    for (int i = 0; i < 2; i++) {
        trp_lock_acquire(&lock);
        MODEL_CHECK(holders++ == 0, "two holders");
        trp_store_relaxed(&count, trp_load_relaxed(&count) + 1);
        model_step("holds");
        holders--;
        trp_lock_release(&lock);
    }
}

static void
run(uint32_t threads)
{
    static const char *const names[] = {"a", "b", "c"};
    int ids[3];

    memset(&lock, 0, sizeof lock);
    holders = count = 0;
    model_name(&lock.state, "lock");
    for (uint32_t i = 0; i < threads; i++) {
        ids[i] = model_spawn(names[i], hold_twice, NULL);
    }
    for (uint32_t i = 0; i < threads; i++) {
        model_join(ids[i]);
    }
    MODEL_CHECK(count == 2 * threads, "%u of %u", count, 2 * threads);
    MODEL_ASSERT(lock.state == 0);
}

static void
two(void)
{
    run(2);
}

static void
three(void)
{
    run(3);
}

/* Sleeps at once: the holder is there until it sees the sleeper. */
static void
sleep_in_turn(void *user)
{
    (void)user;
    trp_lock_acquire_slow(&lock);
    MODEL_CHECK(holders++ == 0, "two holders");
    trp_store_relaxed(&count, trp_load_relaxed(&count) + 1);
    holders--;
    trp_lock_release(&lock);
}

/* Held for longer than anybody spins: all of the others sleep, in turn. */
static void
sleep_long(void)
{
    int a, b;

    memset(&lock, 0, sizeof lock);
    holders = count = 0;
    model_name(&lock.state, "lock");
    trp_lock_acquire(&lock);
    a = model_spawn("a", sleep_in_turn, NULL);
    b = model_spawn("b", sleep_in_turn, NULL);
    model_await_sleep();
    trp_lock_release(&lock);
    model_join(a);
    model_join(b);
    MODEL_ASSERT(count == 2 && lock.state == 0);
}

int
main(int argc, char **argv)
{
    static const struct model_scenario scenarios[] = {
        {"two", two, 50},
        {"three", three, 50},
        {"sleep", sleep_long, 20},
    };

    return model_main(
        argc, argv, "lock", scenarios, sizeof scenarios / sizeof scenarios[0]);
}
