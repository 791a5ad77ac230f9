/* SPDX-License-Identifier: MIT */
#include "support/system.h"

#include "support/await.h"

#include <troupe/port.h>

#include <criterion/criterion.h>

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static troupe_system *the_system;

static void
setup(void)
{
    troupe_system_options options = test_options();

    options.flags |= TROUPE_SYSTEM_DRIVEN;
    options.name = "s";
    the_system = test_open(&options);
}

static void
teardown(void)
{
    test_close(the_system);
}

TestSuite(inspect, .init = setup, .fini = teardown);

#define SEEN 64

static struct seen {
    troupe_actor_info info;
    char path[128];
    char type[32];
} seen[SEEN];
static size_t seen_count;
static size_t stop_after;

static bool
note(const troupe_actor_info *info, void *user)
{
    struct seen *entry = &seen[seen_count];

    cr_assert_eq(user, &seen_count);
    cr_assert_lt(seen_count, SEEN);
    cr_assert_geq(info->size, sizeof *info);
    entry->info = *info;
    (void)strncpy(entry->path, info->path, sizeof entry->path - 1);
    (void)strncpy(entry->type, info->type, sizeof entry->type - 1);
    seen_count++;
    return seen_count != stop_after;
}

static const struct seen *
find(const char *path)
{
    for (size_t i = 0; i < seen_count; i++) {
        if (strcmp(seen[i].path, path) == 0) {
            return &seen[i];
        }
    }
    cr_assert(false, "%s was not visited", path);
    return NULL;
}

static troupe_status
inspect(const char *subtree)
{
    memset(seen, 0, sizeof seen);
    seen_count = 0;
    return troupe_inspect(the_system, subtree, note, &seen_count);
}

static troupe_ref child;

static troupe_ref
make_family(void)
{
    troupe_ref parent = test_spawn_doer(the_system, "parent");

    test_do(the_system, parent, test_have_child, &child);
    return parent;
}

Test(inspect, shows_what_is_known_of_an_actor)
{
    troupe_ref parent = make_family();
    const struct seen *entry;

    test_post_number(the_system, child, 1);
    test_post_number(the_system, child, 2);
    cr_assert_eq(inspect(NULL), TROUPE_OK);
    entry = find("troupe://s/user/parent/child");
    cr_assert(troupe_ref_equal(entry->info.actor, child));
    cr_assert(troupe_ref_equal(entry->info.parent, parent));
    cr_assert_eq(entry->info.depth, 2);
    cr_assert_eq(entry->info.handled, 0);
    cr_assert_eq(entry->info.state, TROUPE_STATE_RUNNING);
    cr_assert_str_eq(entry->type, "doer");
    entry = find("troupe://s/user/parent");
    cr_assert_eq(entry->info.handled, 1);
    cr_assert_eq(entry->info.depth, 0);
    test_run(the_system);
    cr_assert_eq(inspect(NULL), TROUPE_OK);
    entry = find("troupe://s/user/parent/child");
    cr_assert_eq(entry->info.depth, 0);
    cr_assert_eq(entry->info.handled, 2);
}

static double
rank_none(const troupe_msg *msg, void *user)
{
    (void)msg;
    (void)user;
    return 0;
}

static bool is_shut;

static troupe_verdict
put_aside(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)state;
    if (troupe_msg_is(msg, &test_empty)) {
        is_shut = false;
        cr_assert_eq(troupe_unstash(self, 0), TROUPE_OK);
    } else if (is_shut) {
        cr_assert_eq(troupe_stash(self), TROUPE_OK);
    }
    return TROUPE_CONTINUE;
}

static uint64_t
handled_by(const char *path)
{
    cr_assert_eq(inspect(NULL), TROUPE_OK);
    return find(path)->info.handled;
}

/* Unbounded, bounded, drop-head, priority: once each, stashed ones later. */
Test(inspect, counts_what_is_handled_in_every_kind_of_mailbox)
{
    static const troupe_actor_type type = {
        .size = sizeof type, .name = "aside", .receive = put_aside};
    static const char path[] = "troupe://s/user/aside";

    for (int kind = 0; kind < 4; kind++) {
        troupe_mailbox_options mailbox = TROUPE_INIT(troupe_mailbox_options);
        troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);
        troupe_ref ref;

        mailbox.capacity = kind == 0 ? 0 : 10;
        mailbox.overflow =
            kind == 2 ? TROUPE_OVERFLOW_DROP_HEAD : TROUPE_OVERFLOW_REJECT;
        mailbox.priority = kind == 3 ? rank_none : NULL;
        options.mailbox = &mailbox;
        options.name = "aside";
        cr_assert_eq(
            troupe_system_spawn(the_system, &type, &options, &ref), TROUPE_OK);
        is_shut = false;
        test_post_numbers(the_system, ref, 5);
        test_run(the_system);
        cr_assert_eq(handled_by(path), 5);
        is_shut = true;
        test_post_numbers(the_system, ref, 3);
        test_run(the_system);
        cr_assert_eq(handled_by(path), 5);
        cr_assert_eq(
            troupe_post(the_system, ref, &test_empty, NULL), TROUPE_OK);
        test_run(the_system);
        cr_assert_eq(handled_by(path), 9);
        cr_assert_eq(troupe_post_stop(the_system, ref), TROUPE_OK);
        test_run(the_system);
    }
}

Test(inspect, parents_come_first)
{
    size_t parent = 0;
    size_t below = 0;

    (void)make_family();
    cr_assert_eq(inspect(NULL), TROUPE_OK);
    for (size_t i = 0; i < seen_count; i++) {
        if (strcmp(seen[i].path, "troupe://s/user/parent") == 0) {
            parent = i;
        } else if (strcmp(seen[i].path, "troupe://s/user/parent/child") == 0) {
            below = i;
        }
    }
    cr_assert_lt(parent, below);
    cr_assert_lt((size_t)(find("troupe://s/user") - seen), parent);
}

Test(inspect, user_system_and_ports_have_no_type)
{
    troupe_port *port;
    char path[128];

    cr_assert_eq(troupe_port_open(the_system, "loop", &port), TROUPE_OK);
    (void)troupe_path(the_system, troupe_port_ref(port), path, sizeof path);
    cr_assert_eq(inspect(NULL), TROUPE_OK);
    cr_assert_str_eq(find("troupe://s/user")->type, "");
    cr_assert_str_eq(find("troupe://s/system")->type, "");
    cr_assert_str_eq(find(path)->type, "");
    troupe_port_close(port);
}

Test(inspect, a_subtree_is_only_that)
{
    (void)make_family();
    (void)test_spawn_doer(the_system, "other");
    test_run(the_system);
    cr_assert_eq(inspect("/user/parent"), TROUPE_OK);
    cr_assert_eq(seen_count, 2);
    cr_assert_str_eq(seen[0].path, "troupe://s/user/parent");
    cr_assert_eq(inspect("troupe://s/user/parent/child"), TROUPE_OK);
    cr_assert_eq(seen_count, 1);
}

Test(inspect, nobody_there_is_missing)
{
    cr_assert_eq(inspect("/user/nobody"), TROUPE_E_MISSING);
    cr_assert_eq(inspect("troupe://other/user"), TROUPE_E_MISSING);
    cr_assert_eq(inspect(""), TROUPE_E_MISSING);
    cr_assert_eq(seen_count, 0);
}

Test(inspect, false_ends_it)
{
    (void)make_family();
    stop_after = 2;
    cr_assert_eq(inspect(NULL), TROUPE_OK);
    cr_assert_eq(seen_count, 2);
}

Test(inspect, one_that_has_not_started_is_starting)
{
    struct test_record record = {0};

    (void)test_spawn_recorder(the_system, "new", &record);
    cr_assert_eq(inspect("/user/new"), TROUPE_OK);
    cr_assert_eq(seen[0].info.state, TROUPE_STATE_STARTING);
    test_run(the_system);
    cr_assert_eq(inspect("/user/new"), TROUPE_OK);
    cr_assert_eq(seen[0].info.state, TROUPE_STATE_RUNNING);
}

static void
inspect_in_stop(troupe_self *self, void *state, const troupe_exit *why)
{
    (void)self;
    (void)state;
    (void)why;
    cr_assert_eq(inspect("/user/ending"), TROUPE_OK);
    cr_assert_eq(seen[0].info.state, TROUPE_STATE_STOPPING);
}

Test(inspect, one_that_is_stopping_is_stopping)
{
    troupe_ref ref =
        test_spawn_with_stop(the_system, "ending", inspect_in_stop);

    cr_assert_eq(troupe_post_stop(the_system, ref), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(seen_count, 1);
}

static bool
call_the_library(const troupe_actor_info *info, void *user)
{
    char path[256];
    troupe_ref found;

    (void)troupe_path(the_system, info->actor, path, sizeof path);
    cr_assert_str_eq(path, info->path);
    cr_assert_eq(troupe_lookup(the_system, info->path, &found), TROUPE_OK);
    cr_assert(troupe_ref_equal(found, info->actor));
    (void)test_counters(the_system);
    (void)test_spawn_doer(the_system, NULL);
    ++*(uint32_t *)user;
    return true;
}

Test(inspect, the_visitor_may_call_the_library)
{
    uint32_t visits = 0;

    (void)make_family();
    cr_assert_eq(troupe_inspect(the_system, "/user", call_the_library, &visits),
        TROUPE_OK);
    cr_assert_eq(visits, 3, "it looks at a snapshot");
}

Test(inspect, nonsense_is_refused)
{
    cr_assert_eq(
        troupe_inspect(NULL, NULL, note, &seen_count), TROUPE_E_INVALID);
    cr_assert_eq(
        troupe_inspect(the_system, NULL, NULL, NULL), TROUPE_E_INVALID);
}

Test(inspect, without_memory_it_says_so)
{
    (void)make_family();
    test_memory.fail_at = test_memory.requests + 1;
    cr_assert_eq(inspect(NULL), TROUPE_E_NOMEM);
    cr_assert_eq(seen_count, 0);
    test_memory.fail_at = 0;
    cr_assert_eq(inspect(NULL), TROUPE_OK);
}

/* --- dump ----------------------------------------------------------------- */

static char dumped[16384];

static void
dump(const troupe_system *system)
{
    int ends[2];
    ssize_t got;
    size_t length = 0;

    cr_assert_eq(pipe(ends), 0);
    troupe_dump(system, ends[1]);
    (void)close(ends[1]);
    while ((got = read(ends[0], dumped + length, sizeof dumped - 1 - length)) >
           0) {
        length += (size_t)got;
    }
    dumped[length] = '\0';
    (void)close(ends[0]);
}

Test(inspect, dump_shows_workers_and_the_deepest_mailboxes)
{
    struct test_record record = {0};
    troupe_ref deep = test_spawn_recorder(the_system, NULL, &record);
    uint64_t requests;

    test_post_numbers(the_system, deep, 321);
    requests = test_memory.requests;
    dump(the_system);
    cr_assert_eq(test_memory.requests, requests, "it does not allocate");
    cr_assert_not_null(strstr(dumped, "worker"), "%s", dumped);
    cr_assert_not_null(strstr(dumped, "321"), "%s", dumped);
    cr_assert_not_null(strstr(dumped, "recorder"), "%s", dumped);
    test_run(the_system);
    cr_assert_eq(record.count, 321);
}

Test(inspect, dump_to_a_bad_descriptor_is_survived)
{
    troupe_dump(the_system, -1);
    troupe_dump(NULL, 1);
}

/* --- one that goes meanwhile ---------------------------------------------- */

static struct test_record nobody;
static troupe_ref first, second;
static bool is_armed;

/* The memory for the snapshot is asked for after the lookup. */
static void *
replace_first(size_t bytes, size_t align, void *user)
{
    if (is_armed) {
        is_armed = false;
        test_require(troupe_post_stop_now(the_system, first) == TROUPE_OK);
        test_run(the_system);
        test_post_number(the_system, second, 1);
        test_run(the_system);
    }
    return test_alloc(bytes, align, user);
}

static troupe_verdict
spawn_second(troupe_self *self, void *state, const troupe_msg *msg)
{
    static const troupe_actor_type type = {
        .size = sizeof type, .name = "stranger", .receive = test_ignore};

    (void)state;
    (void)msg;
    test_require(troupe_spawn(self, &type, NULL, &second) == TROUPE_OK);
    return TROUPE_CONTINUE;
}

static bool
count_visit(const troupe_actor_info *info, void *user)
{
    (void)info;
    ++*(uint64_t *)user;
    return true;
}

Test(inspect_reuse, does_not_show_who_got_the_cell_of_what_was_asked_for)
{
    static const troupe_actor_type type = {
        .size = sizeof type, .name = "spawner", .receive = spawn_second};
    troupe_system_options options = test_options();
    uint64_t visits = 0;

    options.flags |= TROUPE_SYSTEM_DRIVEN;
    options.alloc = replace_first;
    the_system = test_open(&options);
    cr_assert_eq(
        troupe_system_spawn(the_system, &type, NULL, &second), TROUPE_OK);
    first = test_spawn_recorder(the_system, "a", &nobody);
    test_run(the_system);
    is_armed = true;
    cr_assert_eq(
        troupe_inspect(the_system, "/user/a", count_visit, &visits), TROUPE_OK);
    cr_assert_eq(second.index, first.index, "or the test tests nothing");
    cr_assert_eq(visits, 0);
    test_close(the_system);
}

/* --- under load ----------------------------------------------------------- */

static _Atomic uint64_t running = 1;

static troupe_verdict
churn(troupe_self *self, void *state, const troupe_msg *msg)
{
    static const troupe_actor_type short_lived = {
        .size = sizeof short_lived, .name = "short", .receive = test_ignore};
    troupe_ref ref;

    (void)state;
    if (running != 0) {
        test_require(troupe_spawn(self, &short_lived, NULL, &ref) == TROUPE_OK);
        test_require(troupe_stop(self, ref) == TROUPE_OK);
        troupe_tell(self, troupe_self_ref(self), msg->type, msg->payload);
    }
    return TROUPE_CONTINUE;
}

static bool
check_consistency(const troupe_actor_info *info, void *user)
{
    test_require(!troupe_ref_is_none(info->actor));
    test_require(info->path != NULL && info->type != NULL);
    test_require(strncmp(info->path, "troupe://", 9) == 0);
    ++*(uint64_t *)user;
    return true;
}

Test(inspect_threads, the_system_may_be_under_full_load)
{
    static const troupe_actor_type type = {
        .size = sizeof type, .name = "churn", .receive = churn};
    troupe_system *system = test_open_threads(2);
    uint64_t visits = 0;

    for (int i = 0; i < 4; i++) {
        troupe_ref ref;

        cr_assert_eq(troupe_system_spawn(system, &type, NULL, &ref), TROUPE_OK);
        test_post_number(system, ref, 1);
    }
    for (int i = 0; i < 200; i++) {
        cr_assert_eq(troupe_inspect(system, NULL, check_consistency, &visits),
            TROUPE_OK);
        (void)test_counters(system);
        dump(system);
    }
    cr_assert_geq(visits, 200 * 6);
    running = 0;
    /* Whoever saw it before spawns once more: not into a system that stops. */
    cr_assert_eq(troupe_system_await_idle(system, TROUPE_FOREVER), TROUPE_OK);
    test_close(system);
}
