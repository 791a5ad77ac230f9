/* SPDX-License-Identifier: MIT */

/*
 * lib/queue/deque.h and deque.c: one owner that pushes, pops, takes the oldest
 * and grows, and thieves.
 *
 * Oracle: every item is taken once, by anybody; what one thief takes comes in
 * the order of the pushes, for steals take the oldest.
 */

#include "engine.h"
#include "interleave.h"
#include "queue/deque.h"
#include "runner.h"
#include "support.h"

#include <string.h>

#define ITEMS_MAX 300
#define FIRST_CAPACITY 256 /* deque.c: FIRST_ENTRIES */

static struct trp_deque deque;
static char items[ITEMS_MAX]; /* an item is the address of a place here */
static uint32_t taken[ITEMS_MAX];
static uint32_t pushed;

static void
begin(void)
{
    model_heap_begin();
    memset(&deque, 0, sizeof deque);
    memset(taken, 0, sizeof taken);
    pushed = 0;
    MODEL_ASSERT(trp_deque_init(&deque, &model_heap));
    model_name(&deque.top, "top");
    model_name(&deque.bottom, "bottom");
    model_name(&deque.array, "array");
}

static void
push(void)
{
    MODEL_ASSERT(trp_deque_push(&deque, &items[pushed]));
    pushed++;
}

/* The item's number, or -1 for NULL. */
static int
count_taken(const char *item)
{
    ptrdiff_t number = item - items;

    if (item == NULL) {
        return -1;
    }
    MODEL_CHECK(
        number >= 0 && number < ITEMS_MAX, "%p is no item", (const void *)item);
    MODEL_CHECK(taken[number]++ == 0, "item %d is taken again", (int)number);
    model_note("took %d", (int)number);
    return (int)number;
}

static void
thief(void *user)
{
    int last = -1;

    for (uintptr_t i = 0; i < (uintptr_t)user; i++) {
        int number = count_taken(trp_deque_steal(&deque));

        MODEL_CHECK(
            number < 0 || number > last, "stole %d after %d", number, last);
        last = number < 0 ? last : number;
    }
}

static void
check_rest(void)
{
    while (count_taken(trp_deque_pop(&deque)) >= 0) {
    }
    for (uint32_t i = 0; i < pushed; i++) {
        MODEL_CHECK(taken[i] == 1, "item %u is lost", i);
    }
    MODEL_ASSERT(deque.top == deque.bottom);
    trp_deque_fini(&deque);
    MODEL_ASSERT(model_heap_live() == 0);
}

static void
run(void (*owner)(void *), uintptr_t steals_a, uintptr_t steals_b)
{
    int threads[] = {
        model_spawn("owner", owner, NULL),
        model_spawn("a", thief, (void *)steals_a),
        model_spawn("b", thief, (void *)steals_b),
    };

    for (int i = 0; i < 3; i++) {
        model_join(threads[i]);
    }
    check_rest();
}

/* The last one and the one before: the owner's end meets the thieves'. */
static void
own_last(void *user)
{
    (void)user;
    push();
    push();
    count_taken(trp_deque_pop(&deque));
    push();
    count_taken(trp_deque_pop(&deque));
    count_taken(trp_deque_pop(&deque));
}

static void
last(void)
{
    begin();
    run(own_last, 2, 2);
}

static void
own_refill(void *user)
{
    (void)user;
    for (int i = 0; i < 3; i++) {
        push();
        count_taken(trp_deque_pop(&deque));
    }
}

/* Empty again and again. */
static void
refill(void)
{
    begin();
    run(own_refill, 2, 1);
}

/* As the yield queue is used: the owner takes the oldest like a thief. */
static void
own_oldest(void *user)
{
    (void)user;
    push();
    push();
    push();
    for (int i = 0; i < 3; i++) {
        count_taken(trp_deque_steal(&deque));
    }
}

static void
oldest(void)
{
    begin();
    run(own_oldest, 2, 1);
}

static void
own_growth(void *user)
{
    (void)user;
    for (int i = 0; i < 3; i++) {
        push();
    }
    count_taken(trp_deque_pop(&deque));
    push();
}

/* Full but for one; not at the array's start, so that growth moves entries. */
static void
grow(void)
{
    begin();
    for (int i = 0; i < 3; i++) {
        push();
        count_taken(trp_deque_steal(&deque));
    }
    for (int i = 0; i < FIRST_CAPACITY - 1; i++) {
        push();
    }
    run(own_growth, 2, 2);
    MODEL_ASSERT(pushed == FIRST_CAPACITY + 6);
}

int
main(int argc, char **argv)
{
    static const struct model_scenario scenarios[] = {
        {"last", last, 100},
        {"refill", refill, 100},
        {"oldest", oldest, 100},
        {"grow", grow, 20},
    };

    return model_main(
        argc, argv, "deque", scenarios, sizeof scenarios / sizeof scenarios[0]);
}
