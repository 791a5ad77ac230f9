/* SPDX-License-Identifier: MIT */
#include "actor/watch.h"
#include "support/alloc.h"

#include <troupe/troupe.h>

#include <criterion/criterion.h>

#include <string.h>

/* Death notices and the rules of the watcher's mailbox. */

enum { SUBJECTS = 1000 };

static uint32_t notices;
static uint32_t others;

static troupe_verdict
count_notices(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)self;
    (void)state;
    if (troupe_msg_tag(msg) == TROUPE_TAG_DOWN) {
        notices++;
    } else {
        others++;
    }
    return TROUPE_CONTINUE;
}

static const troupe_actor_type type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "watcher",
    .receive = count_notices};

TROUPE_MSG_TYPE_EMPTY(plain, 1);

static double
rank_none(const troupe_msg *msg, void *user)
{
    (void)user;
    cr_assert_neq(troupe_msg_tag(msg), TROUPE_TAG_DOWN, "it is not asked");
    return 1;
}

/* A watcher with capacity 1, full already, and 1000 that stop. */
static void
watch_many(troupe_overflow overflow, bool ordered)
{
    troupe_system_options options = TROUPE_INIT(troupe_system_options);
    troupe_mailbox_options mailbox = TROUPE_INIT(troupe_mailbox_options);
    troupe_spawn_options spawn = TROUPE_INIT(troupe_spawn_options);
    troupe_counters counters = TROUPE_INIT(troupe_counters);
    troupe_system *system;
    troupe_ref watcher;
    troupe_ref subject;
    troupe_run run;

    notices = others = 0;
    options.flags = TROUPE_SYSTEM_DRIVEN | TROUPE_SYSTEM_IGNORE_ENV;
    cr_assert_eq(troupe_system_create(&options, &system), TROUPE_OK);
    mailbox.capacity = 1;
    mailbox.overflow = overflow;
    mailbox.priority = ordered ? rank_none : NULL;
    spawn.mailbox = &mailbox;
    spawn.throughput = 1;
    cr_assert_eq(
        troupe_system_spawn(system, &type, &spawn, &watcher), TROUPE_OK);
    cr_assert_eq(troupe_post(system, watcher, &plain, NULL), TROUPE_OK);
    for (int i = 0; i < SUBJECTS; i++) {
        cr_assert_eq(
            troupe_system_spawn(system, &type, NULL, &subject), TROUPE_OK);
        cr_assert_eq(trp_watch_add((struct trp_core *)(void *)system, NULL,
                         subject, watcher, NULL),
            TROUPE_OK);
        cr_assert_eq(troupe_post_stop_now(system, subject), TROUPE_OK);
    }
    cr_assert_eq(troupe_system_run(system, 0, &run), TROUPE_OK);
    cr_assert_eq(notices, SUBJECTS);
    cr_assert_eq(others, 1);
    cr_assert_eq(troupe_counters_read(system, &counters), TROUPE_OK);
    cr_assert_eq(counters.dropped, 0);
    cr_assert_eq(counters.dead, 0);
    cr_assert_eq(troupe_system_destroy(system), TROUPE_OK);
}

Test(notices, a_watcher_with_capacity_1_gets_all_of_them)
{
    watch_many(TROUPE_OVERFLOW_REJECT, false);
    watch_many(TROUPE_OVERFLOW_DROP_NEW, false);
    watch_many(TROUPE_OVERFLOW_DROP_HEAD, false);
}

Test(notices, a_priority_mailbox_takes_them_without_asking_for_a_rank)
{
    watch_many(TROUPE_OVERFLOW_REJECT, true);
    watch_many(TROUPE_OVERFLOW_DROP_LOWEST, true);
}
