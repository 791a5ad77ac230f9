/* SPDX-License-Identifier: MIT */
#include "support/await.h"
#include "support/system.h"

#include <troupe/testkit.h>

#include <criterion/criterion.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Each request for memory of a scenario fails once, in a system of its own.
 * Whatever happens: a documented status or a counted dead letter, nothing lost,
 * books that balance, and no memory left.
 */

/* What a scenario counts while it runs; all of it zero before. */
static struct tally {
    uint32_t refused;         /* calls that said E_NOMEM */
    uint32_t owned;           /* payloads that own something were made */
    uint32_t kept;            /* of those, the sender still has it */
    _Atomic uint64_t dropped; /* and these were dropped by the library */
} tally;

static struct test_record record;

/* OK or E_NOMEM, and nothing else. */
static bool
is_ok(troupe_status status)
{
    if (status == TROUPE_E_NOMEM) {
        tally.refused++;
        return false;
    }
    if (status != TROUPE_OK) {
        char text[256];

        (void)troupe_explain(status, text, sizeof text);
        cr_assert_fail("%s", text);
    }
    return true;
}

/* True if the countdown is still running: no request of the scenario was it. */
static bool
is_pending(troupe_system *system, uint32_t nth)
{
    bool failed = false;

    for (uint32_t i = 0; i <= nth && !failed; i++) {
        troupe_msg *msg = troupe_msg_new(system, &test_bytes, 5000);

        failed = msg == NULL;
        troupe_msg_free(msg);
    }
    return failed;
}

struct scenario {
    void (*prepare)(troupe_system *system); /* may be NULL; nothing fails */
    void (*run)(troupe_system *system);
    uint32_t least; /* requests that it makes at least */
};

static troupe_system *
open_with(const troupe_dead_letter_options *letters, uint64_t seed)
{
    troupe_system_options options = test_options();

    options.flags |= TROUPE_SYSTEM_DRIVEN;
    options.seed = seed;
    options.dead_letters = letters;
    return test_open(&options);
}

/* `letters`: the systems keep some; NULL: none. */
static void
fail_each_with(
    const struct scenario *scenario, const troupe_dead_letter_options *letters)
{
    uint32_t noticed = 0;
    uint32_t absorbed = 0;
    bool pending = false;
    uint32_t nth;

    for (nth = 1; !pending; nth++) {
        troupe_system *system = open_with(letters, nth % 2);

        cr_assert_lt(nth, 100000);
        memset(&tally, 0, sizeof tally);
        memset(&test_letters, 0, sizeof test_letters);
        memset(&record, 0, sizeof record);
        if (scenario->prepare != NULL) {
            scenario->prepare(system);
        }
        troupe_fail_allocation(system, nth);
        scenario->run(system);
        test_run(system);
        pending = is_pending(system, nth);
        troupe_fail_allocation(system, 0);
        if (pending) {
            cr_assert_eq(tally.refused, 0, "refused although nothing failed");
            cr_assert_eq(test_letters.by_reason[TROUPE_DEAD_REFUSED], 0);
        } else if (tally.refused != 0 ||
                   test_letters.by_reason[TROUPE_DEAD_REFUSED] != 0) {
            noticed++;
        } else {
            absorbed++;
        }
        test_close(system);
        cr_assert_eq(tally.dropped + tally.kept, tally.owned,
            "request %u: %u were made, %u kept, %u dropped", nth, tally.owned,
            tally.kept, (unsigned)tally.dropped);
    }
    (void)fprintf(stderr, "%u requests: %u noticed, %u absorbed\n", nth - 2,
        noticed, absorbed);
    cr_assert_geq(nth - 2, scenario->least);
}

static void
fail_each(const struct scenario *scenario)
{
    fail_each_with(scenario, NULL);
}

/* --- spawn ---------------------------------------------------------------- */

static const troupe_actor_type large = {.size = sizeof(troupe_actor_type),
    .name = "large",
    .state_bytes = 200000,
    .receive = test_ignore};

static troupe_ref
spawn(troupe_system *system, const troupe_actor_type *type, const char *name,
    size_t arg_bytes)
{
    static const char arg[4000];
    troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);
    troupe_ref ref = TROUPE_NONE;

    options.name = name;
    options.arg = arg_bytes != 0 ? arg : NULL;
    options.arg_bytes = arg_bytes;
    if (!is_ok(troupe_system_spawn(system, type, &options, &ref))) {
        cr_assert(troupe_ref_is_none(ref), "a refused spawn leaves no ref");
    }
    return ref;
}

static void
run_spawns(troupe_system *system)
{
    (void)spawn(system, &test_plain, NULL, 0);
    (void)spawn(system, &test_plain, "name", 0);
    (void)spawn(system, &test_plain, NULL, 4000);
    (void)spawn(system, &large, NULL, 0);
    (void)spawn(system, &large, "all", 100);
}

Test(fault_memory, spawn_with_name_argument_and_state)
{
    fail_each(&(struct scenario){NULL, run_spawns, 5});
}

/* Past the point where the table of names grows, and the first cells end. */
static void
run_many_spawns(troupe_system *system)
{
    char name[16];
    char again[32];

    for (uint32_t i = 0; i < 70; i++) {
        troupe_ref found = TROUPE_NONE;
        troupe_ref made;
        troupe_status status;

        (void)snprintf(name, sizeof name, "n%u", i);
        made = spawn(system, &test_plain, name, 0);
        (void)snprintf(again, sizeof again, "/user/%s", name);
        status = troupe_lookup(system, again, &found);
        if (troupe_ref_is_none(made)) {
            cr_assert_eq(status, TROUPE_E_MISSING, "the name is free again");
        } else {
            cr_assert_eq(status, TROUPE_OK);
            cr_assert(troupe_ref_equal(made, found));
        }
    }
}

Test(fault_memory, many_names)
{
    fail_each(&(struct scenario){NULL, run_many_spawns, 60});
}

static troupe_status
start_family(troupe_self *self, void *state, const void *arg)
{
    troupe_ref child = TROUPE_NONE;

    (void)state;
    (void)arg;
    for (uint32_t i = 0; i < 3; i++) {
        troupe_status status = troupe_spawn(self, &large, NULL, &child);

        if (!is_ok(status)) {
            return status;
        }
    }
    return TROUPE_OK;
}

static const troupe_actor_type family = {.size = sizeof(troupe_actor_type),
    .name = "family",
    .receive = test_ignore,
    .start = start_family};

static void
run_family(troupe_system *system)
{
    (void)spawn(system, &family, "first", 0);
    (void)spawn(system, &family, "second", 0);
    test_run(system);
}

Test(fault_memory, children_made_in_start)
{
    fail_each(&(struct scenario){NULL, run_family, 6});
}

/* --- post and send -------------------------------------------------------- */

static troupe_ref recorder;
static troupe_ref doer;

static void
prepare_actors(troupe_system *system)
{
    recorder = test_spawn_recorder(system, "recorder", &record);
    doer = test_spawn_doer(system, "doer");
    test_run(system);
}

static const size_t sizes[] = {
    1, 8, 24, 40, 41, 64, 100, 500, 2000, 2048, 2049, 5000, 100000};

/* Posts one that owns something; a refused one is still ours. */
static void
post_owned(troupe_system *system, const troupe_msg_type *type)
{
    struct test_large payload = {.owned = {&tally.dropped, 1}};

    tally.owned++;
    if (!is_ok(troupe_post(system, recorder, type, &payload))) {
        tally.kept++;
    }
}

static void
post_message(troupe_system *system, const troupe_msg_type *type)
{
    troupe_msg *msg = troupe_msg_new(system, type, 0);
    struct test_owned *owned;

    if (msg == NULL) {
        tally.refused++;
        return;
    }
    owned = msg->payload;
    owned->drops = &tally.dropped;
    tally.owned++;
    if (!is_ok(troupe_post_msg(system, recorder, msg))) {
        troupe_msg_free(msg);
    }
}

static void
run_posts(troupe_system *system)
{
    static const char bytes[100000];
    uint32_t accepted = 0;

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        accepted += is_ok(
            troupe_post_bytes(system, recorder, &test_bytes, bytes, sizes[i]));
    }
    accepted += is_ok(troupe_post(system, recorder, &test_empty, NULL));
    test_run(system);
    cr_assert_eq(record.count, accepted);
    post_owned(system, &test_owned);
    post_owned(system, &test_large);
    post_owned(system, &test_shared);
    post_message(system, &test_owned);
    post_message(system, &test_large);
    post_message(system, &test_shared);
    troupe_post_tell(system, recorder, &test_pair, &(struct test_pair){1, 2});
    troupe_post_failure(system, recorder, 3);
}

Test(fault_memory, posts_of_all_sizes)
{
    fail_each(&(struct scenario){prepare_actors, run_posts, 5});
}

static void
run_growth(troupe_system *system)
{
    uint32_t accepted = 0;

    for (uint64_t i = 0; i < 3000; i++) {
        accepted += is_ok(troupe_post(system, recorder, &test_number, &i));
    }
    for (uint32_t i = 0; i < 100; i++) {
        post_owned(system, &test_large);
    }
    test_run(system);
    cr_assert_eq(record.count, accepted + tally.owned - tally.kept);
    /* In order, whatever was refused between two of them. */
    for (uint32_t i = 1; i < accepted; i++) {
        cr_assert_gt(record.entry[i].number, record.entry[i - 1].number);
    }
}

Test(fault_memory, growth_of_a_mailbox)
{
    fail_each(&(struct scenario){prepare_actors, run_growth, 3});
}

static troupe_verdict
send_all(troupe_self *self, const troupe_msg *msg, void *user)
{
    static const char bytes[100000];
    struct test_large payload = {.owned = {&tally.dropped, 1}};
    troupe_msg *owned;

    (void)msg;
    (void)user;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        (void)is_ok(
            troupe_send_bytes(self, recorder, &test_bytes, bytes, sizes[i]));
        troupe_tell_bytes(self, recorder, &test_bytes, bytes, sizes[i]);
    }
    for (uint32_t i = 0; i < 3; i++) {
        static const troupe_msg_type *const types[] = {
            &test_owned, &test_large, &test_shared};

        tally.owned += 2;
        if (!is_ok(troupe_send(self, recorder, types[i], &payload))) {
            tally.kept++;
        }
        troupe_tell(self, recorder, types[i], &payload);
        owned = troupe_msg_new(troupe_self_system(self), types[i], 0);
        if (owned == NULL) {
            tally.refused++;
        } else {
            tally.owned++;
            memcpy(owned->payload, &payload, owned->bytes);
            troupe_tell_msg(self, recorder, owned);
        }
    }
    troupe_reply(self, &test_empty, NULL); /* nobody: a dead letter */
    troupe_tell(self, TROUPE_NONE, &test_empty, NULL);
    return TROUPE_CONTINUE;
}

static void
run_sends(troupe_system *system)
{
    test_do(system, doer, send_all, NULL);
}

/* The message that starts it must not be what fails: it fits its mailbox. */
Test(fault_memory, sends_and_tells_of_all_sizes)
{
    fail_each(&(struct scenario){prepare_actors, run_sends, 8});
}

static troupe_verdict
tell_everybody(troupe_self *self, const troupe_msg *msg, void *user)
{
    struct test_large payload = {.owned = {&tally.dropped, 1}};
    troupe_ref all[200];

    (void)msg;
    (void)user;
    for (uint32_t i = 0; i < 200; i++) {
        all[i] = i % 2 == 0 ? recorder : doer;
    }
    tally.owned++;
    (void)troupe_tell_many(self, all, 200, &test_shared, &payload);
    (void)troupe_tell_many(
        self, all, 200, &test_pair, &(struct test_pair){1, 2});
    return TROUPE_CONTINUE;
}

static void
run_tell_many(troupe_system *system)
{
    test_do(system, doer, tell_everybody, NULL);
}

Test(fault_memory, one_payload_to_many)
{
    fail_each(&(struct scenario){prepare_actors, run_tell_many, 2});
}

static troupe_verdict
take_and_pass_on(troupe_self *self, void *state, const troupe_msg *msg)
{
    troupe_msg *copy;
    troupe_msg *kept;

    (void)state;
    if (troupe_msg_is(msg, &test_pair)) {
        troupe_forward(self, recorder);
        return TROUPE_CONTINUE;
    }
    copy = troupe_msg_copy(troupe_self_system(self), msg);
    if (msg->type->drop != NULL) {
        cr_assert_null(copy);
    } else if (copy == NULL) {
        tally.refused++;
    } else if (!is_ok(troupe_send_msg_from(self, recorder, copy, doer))) {
        troupe_msg_free(copy);
    }
    if (!is_ok(troupe_take(self, &kept))) {
        return TROUPE_CONTINUE;
    }
    if (!is_ok(troupe_send_msg(self, recorder, kept))) {
        troupe_msg_free(kept);
    }
    return TROUPE_CONTINUE;
}

static const troupe_actor_type taker = {.size = sizeof(troupe_actor_type),
    .name = "taker",
    .receive = take_and_pass_on};

static void
prepare_taker(troupe_system *system)
{
    troupe_ref keep;

    prepare_actors(system);
    keep = recorder;
    recorder = spawn(system, &taker, "taker", 0);
    post_owned(system, &test_owned);
    post_owned(system, &test_large);
    post_owned(system, &test_shared);
    for (uint64_t i = 0; i < 20; i++) {
        (void)is_ok(troupe_post(system, recorder, &test_number, &i));
        (void)is_ok(troupe_post(
            system, recorder, &test_pair, &(struct test_pair){1, 2}));
    }
    recorder = keep;
}

static void
run_taker(troupe_system *system)
{
    test_run(system);
}

Test(fault_memory, take_copy_and_forward)
{
    fail_each(&(struct scenario){prepare_taker, run_taker, 1});
}

/* --- the rest of an actor's life ------------------------------------------ */

static troupe_verdict
second(troupe_self *self, void *state, const troupe_msg *msg)
{
    return test_ignore(self, state, msg);
}

static troupe_verdict
push_many(troupe_self *self, const troupe_msg *msg, void *user)
{
    uint32_t pushed = 0;

    (void)msg;
    (void)user;
    for (uint32_t i = 0; i < 100; i++) {
        pushed += is_ok(troupe_become_push(self, second));
    }
    for (; pushed > 0; pushed--) {
        cr_assert_eq(troupe_unbecome(self), TROUPE_OK);
    }
    cr_assert_eq(troupe_unbecome(self), TROUPE_E_STATE);
    return TROUPE_CONTINUE;
}

static void
run_become(troupe_system *system)
{
    test_do(system, doer, push_many, NULL);
}

Test(fault_memory, become_push)
{
    fail_each(&(struct scenario){prepare_actors, run_become, 1});
}

static bool
visit(const troupe_actor_info *info, void *user)
{
    uint32_t *seen = user;

    cr_assert_not_null(info->path);
    (*seen)++;
    return true;
}

static void
run_looks(troupe_system *system)
{
    troupe_ref found = TROUPE_NONE;
    char path[64];
    uint32_t seen = 0;

    (void)is_ok(troupe_inspect(system, NULL, visit, &seen));
    (void)is_ok(troupe_inspect(system, "/user/doer", visit, &seen));
    (void)is_ok(troupe_lookup(system, "/user/doer", &found));
    (void)troupe_path(system, doer, path, sizeof path);
    (void)troupe_system_busy(system, NULL, 0);
    troupe_dump(system, -1);
}

Test(fault_memory, lookup_and_inspect)
{
    fail_each(&(struct scenario){prepare_actors, run_looks, 1});
}

static troupe_ref parents[10];

static troupe_status
start_parent(troupe_self *self, void *state, const void *arg)
{
    troupe_ref child = TROUPE_NONE;

    (void)state;
    (void)arg;
    for (uint32_t i = 0; i < 5; i++) {
        test_require(
            troupe_spawn(self, &test_plain, NULL, &child) == TROUPE_OK);
    }
    return TROUPE_OK;
}

static const troupe_actor_type parent = {.size = sizeof(troupe_actor_type),
    .name = "parent",
    .receive = test_ignore,
    .start = start_parent};

static void
prepare_tree(troupe_system *system)
{
    prepare_actors(system);
    for (uint32_t i = 0; i < 10; i++) {
        parents[i] = spawn(system, &parent, NULL, 0);
    }
    test_run(system);
    /* So full that a stop which takes its place in line needs memory. */
    for (uint64_t i = 0; i < 200; i++) {
        test_post_number(system, parents[0], i);
        test_post_number(system, parents[1], i);
    }
}

static void
run_stops(troupe_system *system)
{
    for (uint32_t i = 0; i < 5; i++) {
        (void)is_ok(troupe_post_stop(system, parents[i]));
    }
    test_run(system);
    for (uint32_t i = 5; i < 8; i++) {
        cr_assert_eq(troupe_post_stop_now(system, parents[i]), TROUPE_OK);
    }
    test_run(system);
    for (uint32_t i = 5; i < 8; i++) {
        cr_assert_eq(troupe_depth(system, parents[i]), TROUPE_DEPTH_DEAD);
    }
    {
        troupe_status status =
            troupe_stop_wait(system, parents, 10, TROUPE_S(1));

        if (status == TROUPE_E_TIMEOUT) {
            /* stop_now has been sent to the rest: it needs no memory */
            tally.refused++;
            test_run(system);
        } else {
            (void)is_ok(status);
        }
    }
}

Test(fault_memory, stops_of_trees)
{
    fail_each(&(struct scenario){prepare_tree, run_stops, 0});
}

static void
run_system_stop(troupe_system *system)
{
    troupe_status status = troupe_system_stop(system);

    cr_assert_eq(status, TROUPE_OK, "a stop needs no memory: %s",
        troupe_status_name(status));
}

Test(fault_memory, stop_of_the_system)
{
    fail_each(&(struct scenario){prepare_tree, run_system_stop, 0});
}

/* What no drop may touch, a stop in line for one, has a queue of its own. */
static uint32_t drained, drain_errors;
static troupe_ref last_error;

static troupe_verdict
drain(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)self;
    (void)state;
    drained += troupe_msg_is(msg, &test_number);
    return TROUPE_CONTINUE;
}

static troupe_status
start_hearing(troupe_self *self, void *state, const void *arg)
{
    (void)state;
    (void)arg;
    return troupe_subscribe(self, TROUPE_TAG_RUNTIME_ERROR, NULL, NULL);
}

static troupe_verdict
hear(troupe_self *self, void *state, const troupe_msg *msg)
{
    const troupe_actor_event *event = troupe_payload(msg, troupe_actor_event);

    (void)self;
    (void)state;
    cr_assert_eq(event->exit.kind, TROUPE_EXIT_STOPPED);
    cr_assert_eq(event->exit.code, (int32_t)TROUPE_E_NOMEM);
    cr_assert(troupe_ref_is_none(event->parent));
    cr_assert_str_eq(event->type, "drains");
    cr_assert_not(troupe_ref_equal(event->exit.actor, last_error));
    last_error = event->exit.actor;
    drain_errors++;
    return TROUPE_CONTINUE;
}

enum { DRAINING = 5 };

static void
prepare_draining(troupe_system *system)
{
    static const troupe_actor_type drains = {
        .size = sizeof drains, .name = "drains", .receive = drain};
    static const troupe_actor_type hears = {.size = sizeof hears,
        .name = "hears",
        .receive = hear,
        .start = start_hearing};

    troupe_mailbox_options mailbox = TROUPE_INIT(troupe_mailbox_options);
    troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);
    troupe_ref ref;

    drained = drain_errors = 0;
    last_error = TROUPE_NONE;
    mailbox.capacity = 4;
    mailbox.overflow = TROUPE_OVERFLOW_DROP_HEAD;
    options.mailbox = &mailbox;
    (void)spawn(system, &hears, NULL, 0);
    test_run(system);
    for (uint32_t i = 0; i < DRAINING; i++) {
        cr_assert_eq(
            troupe_system_spawn(system, &drains, &options, &ref), TROUPE_OK);
        test_post_number(system, ref, 0);
        test_post_number(system, ref, 1);
    }
}

/* Whoever could not be told in line is not silently cut short. */
static void
run_draining(troupe_system *system)
{
    uint64_t lost;

    run_system_stop(system);
    lost = test_letters.by_reason[TROUPE_DEAD_STOPPED];
    cr_assert_eq(drained + lost, 2 * DRAINING);
    cr_assert_eq(lost, 2 * drain_errors);
    tally.refused += drain_errors;
}

Test(fault_memory, stop_of_a_system_whose_actors_drain)
{
    fail_each(&(struct scenario){prepare_draining, run_draining, DRAINING});
}

static char hurried_line[200];
static uint32_t hurried_lines;

static void
keep_hurried(const troupe_log_line *line, void *user)
{
    (void)user;
    if (strstr(line->text, "drain") != NULL) {
        cr_assert_eq(line->level, TROUPE_LOG_WARN);
        (void)snprintf(hurried_line, sizeof hurried_line, "%s", line->text);
        hurried_lines++;
    }
}

Test(fault_memory, a_line_in_the_log_says_how_many_could_not_drain)
{
    for (uint64_t nth = 0; nth < 2; nth++) {
        troupe_system_options options = test_options();
        troupe_system *system;

        options.flags |= TROUPE_SYSTEM_DRIVEN;
        options.log.write = keep_hurried;
        options.log.max_level = TROUPE_LOG_WARN;
        system = test_open(&options);
        prepare_draining(system);
        troupe_fail_allocation(system, nth);
        troupe_system_request_stop(system); /* nobody is hurried later */
        cr_assert_eq(troupe_system_run(system, 0, NULL), TROUPE_E_CLOSED);
        cr_assert_eq(drain_errors, nth);
        cr_assert_eq(hurried_lines, nth);
        test_close(system);
    }
    cr_assert_not_null(strstr(hurried_line, " 1 actor"), "%s", hurried_line);
}

/* --- ports and probes ----------------------------------------------------- */

static troupe_verdict
answer(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct test_large payload = {.owned = {&tally.dropped, 1}};

    (void)state;
    (void)msg;
    tally.owned++;
    troupe_reply(self, &test_large, &payload);
    return TROUPE_CONTINUE;
}

static const troupe_actor_type answerer = {.size = sizeof(troupe_actor_type),
    .name = "answerer",
    .receive = answer};

static void
prepare_answerer(troupe_system *system)
{
    prepare_actors(system);
    parents[0] = spawn(system, &answerer, "answerer", 0);
    test_run(system);
}

static void
run_port(troupe_system *system)
{
    troupe_port *port = NULL;
    const troupe_msg *msg;
    troupe_msg *kept;
    uint64_t letters = test_letters.total;
    uint32_t asked = 0;
    uint32_t answers = 0;

    if (!is_ok(troupe_port_open(system, "port", &port))) {
        cr_assert_null(port);
        return;
    }
    for (uint64_t i = 0; i < 200; i++) {
        asked += is_ok(troupe_port_send(port, parents[0], &test_number, &i));
    }
    test_run(system);
    while ((msg = troupe_port_next(port)) != NULL) {
        answers++;
        if (answers % 10 == 0 && is_ok(troupe_port_take(port, &kept))) {
            if (!is_ok(troupe_port_send_msg(port, recorder, kept))) {
                troupe_msg_free(kept);
            }
        }
    }
    cr_assert_eq(answers + test_letters.total - letters, asked);
    for (uint64_t i = 0; i < 5; i++) {
        troupe_port_tell(port, parents[0], &test_number, &i);
    }
    test_run(system);
    (void)troupe_port_next(port);
    troupe_port_close(port); /* with some left, and one borrowed */
}

Test(fault_memory, ports)
{
    fail_each(&(struct scenario){prepare_answerer, run_port, 3});
}

/* --- operations ----------------------------------------------------------- */

static uint32_t begun, ended;
static troupe_ref keeper; /* answers nobody, and has to remember them */

static troupe_verdict
count_end(
    troupe_self *self, void *state, const troupe_result *result, void *user)
{
    (void)self;
    (void)state;
    (void)result;
    (void)user;
    ended++;
    return TROUPE_CONTINUE;
}

static void
count_begin(troupe_status status)
{
    begun += is_ok(status) ? 1 : 0;
}

static troupe_status
attempt(troupe_self *self, void *state, uint32_t number, const void *payload,
    troupe_continuation then, troupe_ticket *ticket)
{
    (void)state;
    (void)number;
    return troupe_ask(self, parents[0], &test_number, payload, 0, then, ticket);
}

static troupe_verdict
begin_all(troupe_self *self, const troupe_msg *msg, void *user)
{
    const troupe_continuation then = troupe_then(count_end, NULL);
    struct test_large payload = {.owned = {&tally.dropped, 1}};
    const troupe_ref whom[] = {parents[0], keeper, recorder};
    const troupe_retry_options twice = {
        .size = TROUPE_OPTIONS(troupe_retry_options), .attempts = 2};
    uint64_t number = 1;
    troupe_ref promise;
    troupe_status status;

    (void)msg;
    (void)user;
    for (uint32_t i = 0; i < 3; i++) {
        count_begin(troupe_ask(
            self, whom[i], &test_number, &number, TROUPE_MS(i), then, NULL));
        tally.owned++;
        status =
            troupe_ask(self, whom[i], &test_large, &payload, 0, then, NULL);
        tally.kept += status != TROUPE_OK ? 1 : 0;
        count_begin(status);
    }
    status = troupe_promise(self, 0, then, &promise, NULL);
    count_begin(status);
    if (status == TROUPE_OK) {
        troupe_tell(self, promise, &test_number, &number);
    }
    count_begin(troupe_sleep(self, TROUPE_MS(1), then, NULL));
    count_begin(
        troupe_retry(self, &twice, attempt, &test_number, &number, then, NULL));
    count_begin(
        troupe_stop_gracefully(self, recorder, TROUPE_S(1), then, NULL));
    if (is_ok(troupe_pipe(self, recorder, 0, &promise))) {
        troupe_reply_failure(self, 1); /* nobody: a dead letter */
        troupe_tell(self, promise, &test_number, &number);
    }
    return TROUPE_CONTINUE;
}

static void
prepare_operations(troupe_system *system)
{
    prepare_answerer(system);
    begun = ended = 0;
    doer = test_spawn_doer(system, NULL);
    test_require(
        troupe_system_spawn(system, &test_plain, NULL, &keeper) == TROUPE_OK);
    test_run(system);
}

/* What has begun ends once, at the latest with the actor. */
static void
run_operations(troupe_system *system)
{
    troupe_answer answer;
    uint64_t number = 1;
    troupe_status status =
        troupe_ask_wait(system, parents[0], &test_number, &number, 0, &answer);

    (void)is_ok(status);
    troupe_msg_free(answer.reply);
    test_do(system, doer, begin_all, NULL);
    cr_assert_eq(troupe_post_stop_now(system, keeper), TROUPE_OK);
    test_run(system);
    cr_assert_eq(troupe_post_stop_now(system, doer), TROUPE_OK);
    test_run(system);
    cr_assert_eq(ended, begun, "%u of %u ended", ended, begun);
    cr_assert_eq(test_counters(system).asks, 0);
}

Test(fault_memory, operations)
{
    fail_each(&(struct scenario){prepare_operations, run_operations, 6});
}

enum { MANY = 24 };

struct block {
    unsigned char bytes[3000]; /* no pool has that */
};
TROUPE_MSG_TYPE(block, struct block, 40);

static troupe_verdict
answer_block(troupe_self *self, void *state, const troupe_msg *msg)
{
    const uint64_t number = 1;

    (void)state;
    cr_assert(msg->type == &block || msg->type == &test_shared);
    troupe_reply(self, &test_number, &number);
    return TROUPE_CONTINUE;
}

static const troupe_actor_type blocks = {.size = sizeof(troupe_actor_type),
    .name = "blocks",
    .receive = answer_block};

static troupe_verdict
take_end(
    troupe_self *self, void *state, const troupe_result *result, void *user)
{
    troupe_msg *taken = NULL;

    (void)state;
    (void)user;
    ended++;
    if (result->msg != NULL && is_ok(troupe_take(self, &taken))) {
        troupe_msg_free(taken);
    }
    return TROUPE_CONTINUE;
}

static bool
is_better(const troupe_msg *a, const troupe_msg *b, void *user)
{
    (void)a;
    (void)b;
    (void)user;
    return true;
}

/* Of those who answer, those who do not, and one who cannot be reached. */
static troupe_verdict
gather_all(troupe_self *self, const troupe_msg *msg, void *user)
{
    static const struct block copied;
    struct test_large shared = {.owned = {&tally.dropped, 1}};
    troupe_ref whom[MANY];
    troupe_gather_options options = {
        .size = sizeof options, .better = is_better};
    troupe_status status;

    (void)msg;
    (void)user;
    for (uint32_t i = 0; i < MANY; i++) {
        whom[i] = i % 3 != 0 ? parents[0] : keeper;
    }
    whom[MANY - 1] = recorder;
    for (uint32_t i = 0; i < 16; i++) {
        troupe_continuation then =
            troupe_then(i % 3 == 0 ? take_end : count_end, NULL);

        options.policy = (troupe_gather_policy)(i % 4);
        options.tail_delay_ns = i < 8 ? 0 : TROUPE_MS(i % 2);
        count_begin(troupe_gather(
            self, whom, MANY, &block, &copied, &options, then, NULL));
        tally.owned++;
        status = troupe_gather(
            self, whom, MANY, &test_shared, &shared, &options, then, NULL);
        tally.kept += status != TROUPE_OK ? 1 : 0;
        count_begin(status);
    }
    return TROUPE_CONTINUE;
}

static void
prepare_gathers(troupe_system *system)
{
    prepare_operations(system);
    parents[0] = spawn(system, &blocks, "blocks", 0);
    test_run(system);
}

/* It asks everybody or nobody, and ends once, at the latest with the actor. */
static void
run_gathers(troupe_system *system)
{
    test_do(system, doer, gather_all, NULL);
    cr_assert_eq(troupe_post_stop_now(system, keeper), TROUPE_OK);
    test_run(system);
    cr_assert_eq(troupe_post_stop_now(system, doer), TROUPE_OK);
    test_run(system);
    cr_assert_eq(ended, begun, "%u of %u ended", ended, begun);
    cr_assert_eq(test_counters(system).asks, 0);
}

Test(fault_memory, gathers)
{
    fail_each(&(struct scenario){prepare_gathers, run_gathers, 20});
}

static uint32_t
count_down(troupe_port *port)
{
    const troupe_msg *msg;
    uint32_t down = 0;

    while ((msg = troupe_port_next(port)) != NULL) {
        cr_assert_eq(troupe_msg_tag(msg), TROUPE_TAG_DOWN);
        down++;
    }
    return down;
}

static void
run_watch(troupe_system *system)
{
    troupe_port *port = NULL;
    uint32_t watched = 0;
    uint32_t down = 0;

    if (!is_ok(troupe_port_open(system, NULL, &port))) {
        return;
    }
    for (uint32_t i = 0; i < 10; i++) {
        watched += is_ok(troupe_port_watch(port, parents[i]));
    }
    for (uint32_t i = 0; i < 10; i++) {
        cr_assert_eq(troupe_post_stop_now(system, parents[i]), TROUPE_OK);
    }
    test_run(system);
    down += count_down(port);
    watched += is_ok(troupe_port_watch(port, recorder)); /* not for long */
    cr_assert_eq(troupe_post_stop_now(system, recorder), TROUPE_OK);
    test_run(system);
    down += count_down(port);
    cr_assert_eq(down + test_letters.by_reason[TROUPE_DEAD_REFUSED], watched,
        "%u of %u notices", down, watched);
    troupe_port_close(port);
}

Test(fault_memory, watching)
{
    fail_each(&(struct scenario){prepare_tree, run_watch, 3});
}

/* An actor that watches: how many notices it may expect, and has. */
static struct {
    uint32_t expected;
    uint32_t told;
    bool stashes;
} watcher;

enum { WATCH_LIVING, WATCH_DEAD, WATCH_AGAIN, WATCH_UNSTASH };

static void
watch_one(troupe_self *self, troupe_ref whom, bool own, bool is_new)
{
    troupe_msg *msg =
        own ? troupe_msg_new(troupe_self_system(self), &test_owned, 0) : NULL;
    bool done;

    if (msg != NULL) {
        *troupe_payload_mut(msg, struct test_owned) =
            (struct test_owned){&tally.dropped, 1};
        tally.owned++;
    }
    done = is_ok(
        own ? troupe_watch_with(self, whom, msg) : troupe_watch(self, whom));
    if (own && !done) {
        troupe_msg_free(msg); /* ours still */
    }
    watcher.expected += done && is_new ? 1 : 0;
}

static troupe_verdict
watcher_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)state;
    if (!troupe_msg_is(msg, &test_number)) {
        if (watcher.stashes && is_ok(troupe_stash(self))) {
            return TROUPE_CONTINUE;
        }
        watcher.told++;
        return TROUPE_CONTINUE;
    }
    switch (*troupe_payload(msg, uint64_t)) {
    case WATCH_LIVING:
        for (uint32_t i = 1; i < 10; i++) {
            watch_one(self, parents[i], i % 2 == 0, true);
        }
        break;
    case WATCH_DEAD: /* table and mailbox have to grow */
        for (uint32_t i = 1; i < 3000; i++) {
            watch_one(self, (troupe_ref){i, UINT32_MAX}, i % 2 == 0, true);
        }
        break;
    case WATCH_AGAIN:
        watch_one(self, (troupe_ref){1, UINT32_MAX}, true, true);
        watch_one(self, (troupe_ref){2, UINT32_MAX}, false, true);
        break;
    default:
        (void)is_ok(troupe_unstash(self, 0));
        break;
    }
    return TROUPE_CONTINUE;
}

static const troupe_actor_type watcher_type = {
    .size = sizeof(troupe_actor_type),
    .name = "watcher",
    .receive = watcher_receive};

static troupe_ref the_watcher;

static void
prepare_lone_watcher(troupe_system *system)
{
    the_watcher = spawn(system, &watcher_type, NULL, 0);
    memset(&watcher, 0, sizeof watcher);
}

static void
prepare_watcher(troupe_system *system)
{
    prepare_tree(system);
    prepare_lone_watcher(system);
}

static void
run_watcher(troupe_system *system)
{
    test_post_number(system, the_watcher, WATCH_LIVING);
    test_post_number(system, the_watcher, WATCH_DEAD);
    test_run(system);
    test_post_number(system, the_watcher, WATCH_AGAIN);
    test_run(system);
    watcher.stashes = true;
    for (uint32_t i = 1; i < 10; i++) {
        cr_assert_eq(troupe_post_stop_now(system, parents[i]), TROUPE_OK);
    }
    test_run(system);
    watcher.stashes = false;
    for (uint32_t i = 0; i < 3; i++) { /* the first may find no memory */
        test_post_number(system, the_watcher, WATCH_UNSTASH);
        test_run(system);
    }
    cr_assert_eq(watcher.told + test_letters.by_reason[TROUPE_DEAD_REFUSED],
        watcher.expected, "%u of %u", watcher.told, watcher.expected);
    cr_assert_eq(troupe_post_stop_now(system, the_watcher), TROUPE_OK);
}

/* No mailbox has grown before. */
static void
run_lone_watcher(troupe_system *system)
{
    test_post_number(system, the_watcher, WATCH_DEAD);
    test_run(system);
    cr_assert_eq(watcher.told, watcher.expected);
}

Test(fault_memory, actors_that_watch)
{
    fail_each(&(struct scenario){prepare_watcher, run_watcher, 10});
    fail_each(&(struct scenario){prepare_lone_watcher, run_lone_watcher, 5});
}

static void
run_probe(troupe_system *system)
{
    troupe_probe *probe = NULL;
    const uint64_t number = 7;
    bool is_answered;

    if (!is_ok(troupe_probe_open(system, "probe", &probe))) {
        cr_assert_null(probe);
        return;
    }
    is_answered =
        is_ok(troupe_probe_send(probe, parents[0], &test_number, &number));
    (void)is_ok(troupe_probe_watch(probe, parents[0]));
    if (troupe_probe_next(probe, TROUPE_MS(1)) == NULL && is_answered) {
        cr_assert_eq(test_letters.by_reason[TROUPE_DEAD_REFUSED], 1);
    }
    troupe_probe_close(probe);
}

Test(fault_memory, probes)
{
    fail_each(&(struct scenario){prepare_answerer, run_probe, 3});
}

/* --- dead letters and events ---------------------------------------------- */

static const troupe_dead_letter_options letters = {
    .size = TROUPE_OPTIONS(troupe_dead_letter_options),
    .capacity = 12};

static troupe_ref nobody;

static void
prepare_nobody(troupe_system *system)
{
    prepare_actors(system);
    nobody = test_spawn_doer(system, NULL);
    cr_assert_eq(troupe_post_stop(system, nobody), TROUPE_OK);
    test_run(system);
}

static uint64_t
count_dead(troupe_system *system)
{
    return test_counters(system).dead;
}

/* One of each kind; whether it could be kept or not, it is a dead letter. */
static void
lose_all(troupe_system *system)
{
    static const char bytes[100000];
    static const troupe_msg_type *const types[] = {
        &test_owned, &test_large, &test_shared};
    uint64_t before = count_dead(system);

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        troupe_msg *msg = troupe_msg_new(system, &test_bytes, sizes[i]);

        if (msg == NULL) {
            tally.refused++;
        } else {
            memcpy(msg->payload, bytes, sizes[i]);
            if (!is_ok(troupe_post_msg(system, recorder, msg))) {
                troupe_msg_free(msg);
            }
        }
    }
    for (size_t i = 0; i < 3; i++) {
        struct test_large payload = {.owned = {&tally.dropped, 1}};

        tally.owned++;
        troupe_post_tell(system, nobody, types[i], &payload);
    }
    cr_assert_eq(count_dead(system) - before, 3);
}

static uint64_t listed[16];
static uint32_t list_length;

static bool
note_id(const troupe_dead_letter_entry *entry, void *user)
{
    (void)user;
    cr_assert_lt(list_length, 12);
    cr_assert_not_null(entry->letter.msg);
    listed[list_length++] = entry->id;
    return true;
}

static void
run_letters(troupe_system *system)
{
    uint64_t before = count_dead(system);

    record.answer = TROUPE_UNHANDLED;
    lose_all(system);
    test_run(system);
    cr_assert_eq(count_dead(system) - before, 3 + record.count);
    list_length = 0;
    (void)is_ok(troupe_dead_letters_list(system, NULL, note_id, NULL));
    for (uint32_t i = 0; i < list_length; i++) {
        troupe_status status =
            troupe_dead_letters_replay(system, listed[i], recorder);

        if (status != TROUPE_E_INVALID && !is_ok(status)) {
            uint32_t length = list_length;

            list_length = 0;
            cr_assert_eq(
                troupe_dead_letters_get(system, listed[i], note_id, NULL),
                TROUPE_OK, "a refused replay stays");
            list_length = length;
        }
    }
    test_run(system);
    record.answer = TROUPE_CONTINUE;
    list_length = 0;
    (void)is_ok(troupe_dead_letters_list(system, NULL, note_id, NULL));
    if (list_length != 0) {
        troupe_status status =
            troupe_dead_letters_replay(system, listed[0], recorder);

        cr_assert(status == TROUPE_E_INVALID || is_ok(status));
    }
    test_run(system);
    cr_assert_leq(troupe_dead_letters_clear(system), 12);
}

Test(fault_memory, dead_letters_kept_and_replayed)
{
    fail_each_with(
        &(struct scenario){prepare_nobody, run_letters, 20}, &letters);
}

/* The first box of its class comes from the heap when the pool has none. */
static void
lose_one(troupe_system *system, const troupe_msg_type *type)
{
    struct test_owned payload = {&tally.dropped, 1};

    record.answer = TROUPE_UNHANDLED;
    tally.owned += type->drop != NULL ? 1 : 0;
    cr_assert_eq(troupe_post(system, recorder, type, &payload), TROUPE_OK);
    test_run(system);
}

static void
run_small_letter(troupe_system *system)
{
    lose_one(system, &test_owned);
    cr_assert_leq(troupe_dead_letters_clear(system), 1);
}

Test(fault_memory, a_letter_without_its_payload)
{
    fail_each_with(
        &(struct scenario){prepare_actors, run_small_letter, 2}, &letters);
}

static void
prepare_letter(troupe_system *system)
{
    prepare_actors(system);
    lose_one(system, &test_number);
}

static void
run_replay(troupe_system *system)
{
    (void)is_ok(troupe_dead_letters_replay(system, 1, TROUPE_NONE));
    test_run(system);
    cr_assert_leq(troupe_dead_letters_clear(system), 1);
}

Test(fault_memory, a_letter_replayed)
{
    fail_each_with(&(struct scenario){prepare_letter, run_replay, 2}, &letters);
}

static troupe_verdict
listen(troupe_self *self, const troupe_msg *msg, void *user)
{
    (void)msg;
    (void)user;
    (void)is_ok(troupe_subscribe(self, TEST_TAG_BYTES, NULL, NULL));
    (void)is_ok(troupe_subscribe(self, TEST_TAG_SHARED, NULL, NULL));
    (void)is_ok(troupe_subscribe(self, TROUPE_TAG_DEAD_LETTER, NULL, NULL));
    (void)is_ok(troupe_subscribe(self, TROUPE_TAG_ACTOR_STARTED, NULL, NULL));
    (void)is_ok(troupe_subscribe(self, TROUPE_TAG_ACTOR_STOPPED, NULL, NULL));
    return TROUPE_CONTINUE;
}

static void
run_events(troupe_system *system)
{
    struct test_large payload = {.owned = {&tally.dropped, 1}};
    troupe_ref short_lived;
    size_t accepted;

    test_do_later(system, doer, listen, NULL);
    test_do(system, test_spawn_doer(system, NULL), listen, NULL);
    accepted = troupe_post_publish(system, &test_empty, NULL);
    cr_assert_eq(accepted, 0);
    for (int i = 0; i < 40; i++) {
        tally.owned++;
        cr_assert_leq(troupe_post_publish(system, &test_shared, &payload), 2);
    }
    lose_all(system);
    test_run(system);
    short_lived = spawn(system, &test_plain, "x", 0);
    if (!troupe_ref_is_none(short_lived)) {
        (void)is_ok(troupe_post_stop(system, short_lived));
    }
    (void)is_ok(troupe_post_stop(system, doer));
    test_run(system);
}

Test(fault_memory, events_published)
{
    fail_each_with(
        &(struct scenario){prepare_nobody, run_events, 20}, &letters);
}

/* --- failures ---------------------------------------------------------------
 */

static uint32_t subject_starts;
static troupe_exit subject_end;

static troupe_status
start_subject(troupe_self *self, void *state, const void *arg)
{
    (void)self;
    (void)state;
    (void)arg;
    subject_starts++;
    return TROUPE_OK;
}

static void
end_subject(troupe_self *self, void *state, const troupe_exit *why)
{
    (void)self;
    (void)state;
    subject_end = *why;
}

static void
leave_subject(troupe_self *self, void *state, const troupe_exit *why)
{
    (void)self;
    (void)state;
    cr_assert_eq(why->kind, TROUPE_EXIT_FAILED);
}

static troupe_verdict
fail_or_stash(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)state;
    if (troupe_msg_is(msg, &test_large)) {
        (void)is_ok(troupe_stash(self));
        return TROUPE_CONTINUE;
    }
    return troupe_fail(self, 5);
}

static const troupe_actor_type subject_type = {
    .size = sizeof(troupe_actor_type),
    .name = "subject",
    .receive = fail_or_stash,
    .start = start_subject,
    .stop = end_subject,
    .restart = leave_subject,
};

/* Listens to what nobody else is told. */
static uint32_t errors;
static troupe_actor_event the_error;

static troupe_status
start_listener(troupe_self *self, void *state, const void *arg)
{
    (void)state;
    (void)arg;
    return troupe_subscribe(self, TROUPE_TAG_RUNTIME_ERROR, NULL, NULL);
}

static troupe_verdict
hear_error(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)self;
    (void)state;
    errors++;
    the_error = *troupe_payload(msg, troupe_actor_event);
    return TROUPE_CONTINUE;
}

static void
prepare_listener(troupe_system *system)
{
    static const troupe_actor_type listener = {.size = sizeof listener,
        .name = "listener",
        .receive = hear_error,
        .start = start_listener};
    troupe_ref ref;

    errors = 0;
    cr_assert_eq(troupe_system_spawn(system, &listener, NULL, &ref), TROUPE_OK);
    test_run(system);
}

static void
check_error(troupe_ref actor, troupe_ref above)
{
    cr_assert_eq(errors, 1);
    cr_assert(troupe_ref_equal(the_error.exit.actor, actor));
    cr_assert(troupe_ref_equal(the_error.parent, above));
    cr_assert_str_eq(the_error.type, "subject");
    cr_assert_eq(the_error.exit.kind, TROUPE_EXIT_FAILED);
    cr_assert_eq(the_error.exit.code, (int32_t)TROUPE_E_NOMEM);
}

static bool is_plain; /* without options: fewer failures than it may have */

/* With rules, a pause, and a budget that every restart takes some memory of. */
static void
run_failures(troupe_system *system)
{
    static const troupe_rule rules[] = {
        {5, 5, TROUPE_DIRECTIVE_RESTART}, {6, 9, TROUPE_DIRECTIVE_STOP}};
    static const troupe_backoff pause = {
        .size = sizeof pause, .min_ns = TROUPE_US(1), .max_ns = TROUPE_US(1)};
    const troupe_supervision how = {.size = sizeof how,
        .rules = rules,
        .rule_count = 2,
        .max_restarts = 200,
        .backoff = troupe_system_seed(system) != 0 ? &pause : NULL};
    const troupe_spawn_options options = {
        .size = sizeof options, .own = &how, .children = &how};
    troupe_ref ref;
    uint32_t failed = 0;

    subject_starts = 0;
    memset(&subject_end, 0xff, sizeof subject_end);
    if (!is_ok(troupe_system_spawn(
            system, &subject_type, is_plain ? NULL : &options, &ref))) {
        return;
    }
    for (; failed < (is_plain ? 9 : 40); failed++) {
        struct test_large payload = {.owned = {&tally.dropped, failed}};
        uint32_t refused = tally.refused;

        if (troupe_depth(system, ref) == TROUPE_DEPTH_DEAD) {
            break;
        }
        if (failed != 0) { /* the first pause finds no stash */
            tally.owned++;
            if (!is_ok(troupe_post(system, ref, &test_large, &payload))) {
                tally.kept++;
            }
            test_run(system);
        }
        cr_assert_leq(tally.refused, refused + 1);
        (void)is_ok(troupe_post(system, ref, &test_empty, NULL));
        test_run(system);
        if (troupe_system_seed(system) != 0) {
            cr_assert_eq(
                troupe_system_advance(system, TROUPE_US(2)), TROUPE_OK);
        }
    }
    if (troupe_depth(system, ref) == TROUPE_DEPTH_DEAD) {
        cr_assert_eq(subject_end.kind, TROUPE_EXIT_FAILED);
        cr_assert_eq(subject_end.code, 5);
        check_error(ref, TROUPE_NONE);
        tally.refused++; /* noticed: it ended for want of memory */
    } else {
        cr_assert_geq(subject_starts, failed, "told, and restarted");
        if (errors != 0) {
            check_error(ref, TROUPE_NONE); /* without a pause */
        }
    }
}

Test(fault_memory, failures_and_restarts)
{
    is_plain = false;
    fail_each(&(struct scenario){prepare_listener, run_failures, 12});
}

Test(fault_memory, failures_of_an_actor_without_options)
{
    is_plain = true;
    fail_each(&(struct scenario){prepare_listener, run_failures, 8});
}

/* What fails for want of memory is one child, not what its parent keeps. */
static troupe_ref pair[2];

static troupe_verdict
spawn_pair(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)state;
    (void)msg;
    for (int i = 0; i < 2; i++) {
        (void)is_ok(troupe_spawn(self, &subject_type, NULL, &pair[i]));
    }
    return TROUPE_CONTINUE;
}

static const troupe_actor_type pair_parent = {
    .size = sizeof(troupe_actor_type),
    .name = "parent of two",
    .receive = spawn_pair,
};

static void
run_pair(troupe_system *system)
{
    troupe_ref above = TROUPE_NONE;
    uint32_t restarted = 0;

    pair[0] = pair[1] = TROUPE_NONE;
    subject_starts = 0;
    if (!is_ok(troupe_system_spawn(system, &pair_parent, NULL, &above))) {
        return;
    }
    (void)is_ok(troupe_post(system, above, &test_empty, NULL));
    test_run(system);
    for (int i = 0; i < 2; i++) {
        bool lives = !troupe_ref_is_none(pair[i]) &&
                     is_ok(troupe_post(system, pair[i], &test_empty, NULL));

        test_run(system);
        if (lives && troupe_depth(system, pair[i]) == TROUPE_DEPTH_DEAD) {
            check_error(pair[i], above);
            tally.refused++; /* noticed: it ended for want of memory */
        } else {
            restarted += lives;
        }
    }
    cr_assert_neq(troupe_depth(system, above), TROUPE_DEPTH_DEAD);
    cr_assert_geq(restarted + (tally.refused != 0), 2, "no more than one");
}

Test(fault_memory, a_failure_without_memory_ends_one_child_and_not_the_next)
{
    fail_each(&(struct scenario){prepare_listener, run_pair, 8});
}

/* --- the back-off supervisor ---------------------------------------------- */

static uint32_t kept_starts, kept_messages;

/* The first two starts fail, and each third after them. */
static troupe_status
start_kept(troupe_self *self, void *state, const void *arg)
{
    (void)self;
    (void)state;
    cr_assert_str_eq(arg, "kept");
    kept_starts++;
    return kept_starts <= 2 || kept_starts % 3 == 0 ? TROUPE_E_FAILED
                                                    : TROUPE_OK;
}

static troupe_verdict
receive_kept(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)state;
    kept_messages++;
    return troupe_msg_tag(msg) == TEST_TAG_EMPTY ? troupe_fail(self, 5)
                                                 : TROUPE_CONTINUE;
}

/* Spawns a supervisor, and resumes it when it fails. */
static const troupe_backoff_options *keeper_options;
static troupe_ref keeper, keeper_parent;

static troupe_verdict
spawn_keeper(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)state;
    (void)msg;
    (void)is_ok(troupe_spawn_backoff(self, keeper_options, &keeper));
    return TROUPE_CONTINUE;
}

static void
prepare_keeper_parent(troupe_system *system)
{
    static const troupe_supervision resume = {
        .size = sizeof resume, .otherwise = TROUPE_DIRECTIVE_RESUME};
    static const troupe_spawn_options options = {
        .size = sizeof options, .children = &resume};
    static const troupe_actor_type type = {
        .size = sizeof type, .name = "parent", .receive = spawn_keeper};

    cr_assert_eq(troupe_system_spawn(system, &type, &options, &keeper_parent),
        TROUPE_OK);
    test_run(system);
}

static void
no_keeper_parent(troupe_system *system)
{
    (void)system;
    keeper_parent = TROUPE_NONE;
}

/* With everything that an option can point to, and a budget that has a window.
 */
static void
run_keeper(troupe_system *system)
{
    static const troupe_actor_type kept = {.size = sizeof kept,
        .name = "kept",
        .receive = receive_kept,
        .start = start_kept};
    static const troupe_backoff pauses = {
        .size = sizeof pauses, .min_ns = TROUPE_MS(1), .max_ns = TROUPE_MS(8)};
    static const troupe_rule rule = {5, 5, TROUPE_DIRECTIVE_RESTART};
    static const troupe_supervision children = {.size = sizeof children,
        .rules = &rule,
        .rule_count = 1,
        .backoff = &pauses};
    static const troupe_mailbox_options mailbox = {
        .size = sizeof mailbox, .capacity = 100};
    static const troupe_spawn_options child = {.size = sizeof child,
        .arg = "kept",
        .arg_bytes = 5,
        .mailbox = &mailbox,
        .children = &children};
    const troupe_backoff_options options = {.size = sizeof options,
        .name = "keeper",
        .child = &kept,
        .child_options = &child,
        .backoff = &pauses,
        .window_ns = TROUPE_S(10),
        .max_restarts = 10000,
        .stash_capacity = 3};
    bool is_simulation = troupe_system_seed(system) != 0;
    uint64_t started = test_counters(system).started;
    uint32_t before;

    kept_starts = kept_messages = 0;
    keeper = TROUPE_NONE;
    keeper_options = &options;
    if (troupe_ref_is_none(keeper_parent)) {
        (void)is_ok(troupe_system_spawn_backoff(system, &options, &keeper));
    } else if (is_ok(troupe_post(system, keeper_parent, &test_empty, NULL))) {
        test_run(system);
    }
    if (troupe_ref_is_none(keeper)) {
        cr_assert_eq(test_counters(system).started, started);
        return;
    }
    for (uint64_t i = 0; i < 30; i++) {
        struct test_large payload = {.owned = {&tally.dropped, i}};

        tally.owned++;
        if (!is_ok(troupe_post(system, keeper, &test_large, &payload))) {
            tally.kept++;
        }
        if (i % 10 == 9) {
            (void)is_ok(troupe_post(system, keeper, &test_empty, NULL));
        }
        test_run(system);
        if (is_simulation) {
            cr_assert_eq(
                troupe_system_advance(system, TROUPE_MS(2)), TROUPE_OK);
        }
    }
    if (!is_simulation) {
        return;
    }
    cr_assert_eq(troupe_system_advance(system, TROUPE_S(1)), TROUPE_OK);
    before = kept_messages;
    if (is_ok(troupe_post(system, keeper, &test_other, &(uint64_t){1}))) {
        cr_assert_eq(troupe_system_advance(system, TROUPE_S(1)), TROUPE_OK);
        cr_assert_eq(kept_messages, before + 1, "it has recovered");
    }
}

Test(fault_memory, a_backoff_supervisor)
{
    fail_each(&(struct scenario){no_keeper_parent, run_keeper, 12});
}

Test(fault_memory, a_backoff_supervisor_that_is_resumed)
{
    fail_each(&(struct scenario){prepare_keeper_parent, run_keeper, 12});
}

/* --- routers -------------------------------------------------------------- */

static uint32_t routed;
static troupe_ref the_router;

static troupe_verdict
receive_routed(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)self;
    (void)state;
    routed++;
    return troupe_msg_tag(msg) == TEST_TAG_EMPTY ? TROUPE_DONE
                                                 : TROUPE_CONTINUE;
}

static const troupe_actor_type routee_type = {.size = sizeof routee_type,
    .name = "routee",
    .receive = receive_routed};

static size_t
pick_all(
    const troupe_route *route, troupe_ref *targets, size_t capacity, void *user)
{
    (void)user;
    for (size_t i = 0; i < route->count && i < capacity; i++) {
        targets[i] = route->routees[i];
    }
    return route->count;
}

/* One to all of them, of each kind that there is. */
static void
send_to_all(troupe_system *system, troupe_ref router)
{
    static const char text[100] = "text";
    struct test_large payload = {.owned = {&tally.dropped, 1}};

    tally.owned++;
    if (!is_ok(troupe_post(system, router, &test_shared, &payload))) {
        tally.kept++;
    }
    (void)is_ok(
        troupe_post_bytes(system, router, &test_bytes, text, sizeof text));
    (void)is_ok(
        troupe_post_broadcast(system, router, &test_number, &(uint64_t){1}));
    test_run(system);
}

static void
run_router(troupe_system *system)
{
    static const troupe_mailbox_options mailbox = {
        .size = sizeof mailbox, .capacity = 100};
    static const troupe_rule rule = {5, 5, TROUPE_DIRECTIVE_RESTART};
    static const troupe_backoff pauses = {
        .size = sizeof pauses, .min_ns = TROUPE_MS(1), .max_ns = TROUPE_MS(8)};
    static const troupe_supervision own = {.size = sizeof own,
        .rules = &rule,
        .rule_count = 1,
        .backoff = &pauses};
    static const troupe_spawn_options child = {.size = sizeof child,
        .arg = "arg",
        .arg_bytes = 4,
        .mailbox = &mailbox,
        .children = &own,
        .own = &own};
    troupe_router_options options = TROUPE_INIT(troupe_router_options);
    troupe_ref router = TROUPE_NONE;

    the_router = TROUPE_NONE;
    options.name = "router";
    options.type = &routee_type;
    options.routees = 3;
    options.routee_options = &child;
    options.routing = TROUPE_ROUTE_BROADCAST;
    options.flags = TROUPE_ROUTER_RESPAWN;
    if (!is_ok(troupe_system_spawn_router(system, &options, &router))) {
        cr_assert(troupe_ref_is_none(router));
        cr_assert_eq(test_counters(system).started, 0);
        return;
    }
    the_router = router;
    (void)is_ok(troupe_post(system, router, &test_number, &(uint64_t){1}));
    test_run(system);
    if (troupe_router_routees(system, router, NULL, 0) == 0) {
        (void)is_ok(TROUPE_E_NOMEM); /* it could not begin, and does again */
    }
    send_to_all(system, router);
    (void)is_ok(troupe_router_resize(system, router, 6));
    test_run(system);
    (void)is_ok(
        troupe_post_broadcast(system, router, &test_empty, NULL)); /* the end */
    test_run(system);
    if (troupe_system_seed(system) != 0) {
        cr_assert_eq(troupe_system_advance(system, TROUPE_S(1)), TROUPE_OK);
        send_to_all(system, router);
    }
}

/* Without memory for the depths side by side the mailboxes are looked at. */
static void
run_shortest(troupe_system *system)
{
    troupe_router_options options = TROUPE_INIT(troupe_router_options);
    troupe_ref router = TROUPE_NONE;

    options.type = &routee_type;
    options.routees = 3;
    options.routing = TROUPE_ROUTE_SMALLEST_MAILBOX;
    options.flags = TROUPE_ROUTER_RESPAWN;
    if (!is_ok(troupe_system_spawn_router(system, &options, &router))) {
        return;
    }
    test_run(system);
    if (troupe_router_routees(system, router, NULL, 0) != 3) {
        (void)is_ok(TROUPE_E_NOMEM);
    }
    for (uint64_t i = 0; i < 60; i++) {
        (void)is_ok(troupe_post(system, router, &test_number, &i));
    }
    (void)is_ok(troupe_router_resize(system, router, 30));
    test_run(system);
    if (troupe_router_routees(system, router, NULL, 0) != 30) {
        (void)is_ok(TROUPE_E_NOMEM);
    }
    send_to_all(system, router);
    (void)is_ok(troupe_router_resize(system, router, 2));
    test_run(system);
}

Test(fault_memory, a_pool_by_the_shortest_mailbox)
{
    fail_each(&(struct scenario){NULL, run_shortest, 20});
}

Test(fault_memory, a_router_and_its_pool)
{
    fail_each(&(struct scenario){NULL, run_router, 40});
}

enum { MEMBERS = 66 }; /* more than are copied on the stack */

static troupe_ref members[MEMBERS];

static void
prepare_members(troupe_system *system)
{
    for (int i = 0; i < MEMBERS; i++) {
        members[i] = spawn(system, &routee_type, NULL, 0);
    }
}

static void
run_group(troupe_system *system)
{
    troupe_router_options options = TROUPE_INIT(troupe_router_options);
    troupe_ref router = TROUPE_NONE;
    size_t before;

    options.members = members;
    options.routees = MEMBERS - 1;
    options.routing = TROUPE_ROUTE_CUSTOM;
    options.pick = pick_all;
    if (!is_ok(troupe_system_spawn_router(system, &options, &router))) {
        return;
    }
    test_run(system);
    before = troupe_router_routees(system, router, NULL, 0);
    (void)is_ok(troupe_router_add(system, router, members[MEMBERS - 1]));
    test_run(system);
    /* Added, or as it was. */
    cr_assert_leq(troupe_router_routees(system, router, NULL, 0), before + 1);
    cr_assert_geq(troupe_router_routees(system, router, NULL, 0), before);
    (void)is_ok(troupe_router_remove(system, router, members[0]));
    send_to_all(system, router);
    (void)is_ok(troupe_router_stop_routees(system, router));
    test_run(system);
}

static uint32_t gathers, gathers_ended;

static troupe_verdict
on_gathered(
    troupe_self *self, void *state, const troupe_result *result, void *user)
{
    (void)self;
    (void)state;
    (void)user;
    gathers_ended++;
    if (result->status == TROUPE_OK) {
        cr_assert_eq(troupe_msg_tag(result->msg), TROUPE_TAG_GATHERED);
    } else {
        (void)is_ok(TROUPE_E_NOMEM); /* of whom it was, it says so */
    }
    return TROUPE_CONTINUE;
}

static troupe_verdict
ask_the_router(troupe_self *self, const troupe_msg *msg, void *user)
{
    (void)msg;
    (void)user;
    gathers += is_ok(troupe_ask(self, the_router, &test_number, &(uint64_t){1},
        0, (troupe_continuation){on_gathered, NULL}, NULL));
    return TROUPE_CONTINUE;
}

static troupe_ref asker;

static void
prepare_gather(troupe_system *system)
{
    troupe_gather_options gather = TROUPE_INIT(troupe_gather_options);
    troupe_router_options options = TROUPE_INIT(troupe_router_options);

    gather.policy = TROUPE_GATHER_ALL;
    options.type = &test_echo;
    options.routees = 3;
    options.routing = TROUPE_ROUTE_GATHER;
    options.gather = &gather;
    asker = test_spawn_doer(system, NULL);
    cr_assert_eq(
        troupe_system_spawn_router(system, &options, &the_router), TROUPE_OK);
    test_run(system);
}

static void
run_gather(troupe_system *system)
{
    gathers = gathers_ended = 0;
    for (int i = 0; i < 3; i++) {
        test_do(system, asker, ask_the_router, NULL);
    }
    if (troupe_system_seed(system) != 0) { /* what was lost ends in time */
        cr_assert_eq(troupe_system_advance(system, TROUPE_S(10)), TROUPE_OK);
        cr_assert_eq(gathers_ended, gathers);
    }
}

Test(fault_memory, a_router_that_gathers)
{
    fail_each(&(struct scenario){prepare_gather, run_gather, 3});
}

/* What failed once is done in the end. */
Test(fault_memory, a_router_is_whole_again_afterwards)
{
    for (uint32_t nth = 1; nth < 100; nth++) {
        troupe_system *system = open_with(NULL, nth);
        uint32_t before;

        memset(&tally, 0, sizeof tally);
        memset(&test_letters, 0, sizeof test_letters);
        troupe_fail_allocation(system, nth);
        run_router(system);
        test_run(system);
        troupe_fail_allocation(system, 0);
        if (!troupe_ref_is_none(the_router)) {
            cr_assert_eq(
                troupe_system_advance(system, TROUPE_S(30)), TROUPE_OK);
            cr_assert_eq(
                troupe_router_resize(system, the_router, 4), TROUPE_OK);
            test_run(system);
            cr_assert_eq(troupe_router_routees(system, the_router, NULL, 0), 4,
                "request %u", nth);
            before = routed;
            cr_assert_eq(troupe_post_broadcast(
                             system, the_router, &test_number, &(uint64_t){1}),
                TROUPE_OK);
            test_run(system);
            cr_assert_eq(routed, before + 4);
        }
        test_close(system);
    }
}

Test(fault_memory, a_router_and_its_group)
{
    fail_each(&(struct scenario){prepare_members, run_group, 15});
}

/* --- mailboxes with rules ------------------------------------------------- */

/* Puts aside what comes while it is shut; what it opens with is empty. */
static bool is_shut;

static troupe_verdict
put_aside(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)state;
    if (troupe_msg_tag(msg) == TEST_TAG_EMPTY) {
        troupe_status status = troupe_unstash(self, 0);

        is_shut = false;
        cr_assert(status == TROUPE_E_FULL || is_ok(status) ||
                  status == TROUPE_E_NOMEM);
        return TROUPE_CONTINUE;
    }
    if (is_shut) {
        (void)is_ok(troupe_stash(self)); /* or it is handled now */
    }
    return TROUPE_CONTINUE;
}

static const troupe_actor_type aside = {.size = sizeof(troupe_actor_type),
    .name = "aside",
    .receive = put_aside};

static double
rank_by_length(const troupe_msg *msg, void *user)
{
    (void)user;
    return (double)(msg->bytes % 7);
}

/* Fills, puts aside, puts back, and stops while some wait. */
static void
run_ruled(troupe_system *system, const troupe_mailbox_options *mailbox)
{
    troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);
    struct test_large payload = {.owned = {&tally.dropped, 1}};
    troupe_ref ref = TROUPE_NONE;

    is_shut = true;
    options.mailbox = mailbox;
    if (!is_ok(troupe_system_spawn(system, &aside, &options, &ref))) {
        cr_assert(troupe_ref_is_none(ref));
        return;
    }
    for (uint32_t i = 0; i < 40; i++) {
        troupe_status status = troupe_post(
            system, ref, i % 2 == 0 ? &test_large : &test_owned, &payload);

        tally.owned++;
        if (status == TROUPE_E_FULL || !is_ok(status)) {
            tally.kept++;
        }
        if (i % 8 == 7) {
            test_run(system);
        }
    }
    (void)is_ok(troupe_post(system, ref, &test_empty, NULL));
    for (uint64_t i = 0; i < 20; i++) {
        troupe_status status = troupe_post(system, ref, &test_number, &i);

        cr_assert(status == TROUPE_E_FULL || is_ok(status) ||
                  status == TROUPE_E_NOMEM);
    }
    test_run(system);
    (void)is_ok(troupe_post_stop(system, ref));
    test_run(system);
}

static void
run_plain_stash(troupe_system *system)
{
    run_ruled(system, NULL);
}

static void
run_bounded(troupe_system *system)
{
    troupe_mailbox_options mailbox = TROUPE_INIT(troupe_mailbox_options);

    mailbox.capacity = 24;
    mailbox.overflow = TROUPE_OVERFLOW_DROP_NEW;
    run_ruled(system, &mailbox);
}

static void
run_drop_head(troupe_system *system)
{
    troupe_mailbox_options mailbox = TROUPE_INIT(troupe_mailbox_options);

    mailbox.capacity = 24;
    mailbox.overflow = TROUPE_OVERFLOW_DROP_HEAD;
    run_ruled(system, &mailbox);
}

static void
run_priority(troupe_system *system)
{
    troupe_mailbox_options mailbox = TROUPE_INIT(troupe_mailbox_options);

    mailbox.capacity = 24;
    mailbox.priority = rank_by_length;
    mailbox.overflow = TROUPE_OVERFLOW_DROP_LOWEST;
    run_ruled(system, &mailbox);
}

/* --- a mailbox of the user's own ------------------------------------------ */

enum { PLACES = 128, MOST_DROPPABLE = 24 };

struct ring_box {
    troupe_msg *msg[PLACES];
    uint32_t first, count;
};

static void *
open_ring(void *user)
{
    struct ring_box *box = user;

    memset(box, 0, sizeof *box);
    return box;
}

static void
close_ring(void *box)
{
    cr_assert_eq(((struct ring_box *)box)->count, 0);
}

static troupe_status
push_last(void *box, troupe_msg *msg)
{
    struct ring_box *ring = box;

    cr_assert_lt(ring->count, PLACES);
    ring->msg[(ring->first + ring->count++) % PLACES] = msg;
    return TROUPE_OK;
}

static troupe_msg *
take_first(void *box)
{
    struct ring_box *ring = box;

    if (ring->count == 0) {
        return NULL;
    }
    ring->count--;
    return ring->msg[ring->first++ % PLACES];
}

static troupe_status
push_last_or_evict(void *box, troupe_msg *msg, troupe_msg **evicted)
{
    if (((struct ring_box *)box)->count >= MOST_DROPPABLE) {
        *evicted = take_first(box);
    }
    return push_last(box, msg);
}

static troupe_status
push_first(void *box, troupe_msg *msg, troupe_msg **evicted)
{
    struct ring_box *ring = box;

    (void)evicted;
    if (ring->count >= MOST_DROPPABLE) {
        return TROUPE_E_FULL;
    }
    ring->first += PLACES - 1;
    ring->msg[ring->first % PLACES] = msg;
    ring->count++;
    return TROUPE_OK;
}

static size_t
count_ring(const void *box)
{
    return ((const struct ring_box *)box)->count;
}

static const troupe_custom_mailbox ring_mailbox = {
    .size = TROUPE_OPTIONS(troupe_custom_mailbox),
    .name = "ring",
    .open = open_ring,
    .close = close_ring,
    .enqueue = push_last_or_evict,
    .enqueue_undroppable = push_last,
    .prepend = push_first,
    .dequeue = take_first,
    .length = count_ring};

static void
run_custom(troupe_system *system)
{
    static struct ring_box box;
    troupe_mailbox_options mailbox = TROUPE_INIT(troupe_mailbox_options);

    mailbox.custom = &ring_mailbox;
    mailbox.custom_user = &box;
    run_ruled(system, &mailbox);
}

/* --- a throttle ----------------------------------------------------------- */

/* One that begins with it; some tokens come, and some wait at the stop. */
static void
run_throttled_with(troupe_system *system, const troupe_mailbox_options *mailbox)
{
    troupe_throttle_options throttle = TROUPE_INIT(troupe_throttle_options);
    troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);
    struct test_large payload = {.owned = {&tally.dropped, 1}};
    troupe_ref ref = TROUPE_NONE;

    throttle.per_second = 10;
    throttle.burst = 2;
    options.throttle = &throttle;
    options.mailbox = mailbox;
    if (!is_ok(troupe_system_spawn(system, &test_plain, &options, &ref))) {
        cr_assert(troupe_ref_is_none(ref));
        return;
    }
    for (uint32_t i = 0; i < 20; i++) {
        tally.owned++;
        tally.kept +=
            is_ok(troupe_post(system, ref, &test_large, &payload)) ? 0 : 1;
        if (i % 4 == 3) {
            test_run(system);
            if (troupe_system_seed(system) != 0) {
                cr_assert_eq(
                    troupe_system_advance(system, TROUPE_MS(101)), TROUPE_OK);
            }
        }
    }
    test_run(system);
    (void)is_ok(troupe_post_stop_now(system, ref));
    test_run(system);
}

static void
run_throttled(troupe_system *system)
{
    run_throttled_with(system, NULL);
}

static void
run_throttled_custom(troupe_system *system)
{
    static struct ring_box box;
    troupe_mailbox_options mailbox = TROUPE_INIT(troupe_mailbox_options);

    mailbox.custom = &ring_mailbox;
    mailbox.custom_user = &box;
    run_throttled_with(system, &mailbox);
}

Test(fault_memory, a_custom_mailbox)
{
    fail_each(&(struct scenario){NULL, run_custom, 0});
}

Test(fault_memory, a_throttle)
{
    fail_each(&(struct scenario){NULL, run_throttled, 0});
}

Test(fault_memory, a_throttle_before_a_custom_mailbox)
{
    fail_each(&(struct scenario){NULL, run_throttled_custom, 0});
}

/* --- timers --------------------------------------------------------------- */

static uint32_t once_started, once_fired, large_fired;

static const troupe_msg_type huge = {
    sizeof(troupe_msg_type), "huge", 5000, 77, 0, NULL};

static void
start_timers(troupe_self *self)
{
    static const troupe_msg_type *const owning[] = {
        &test_owned, &test_large, &test_shared};
    static const char bytes[5000];

    for (uint64_t key = 0; key < 40; key++) {
        once_started +=
            is_ok(troupe_timer_once(self, key, &test_number, &key, key % 2));
    }
    for (uint64_t i = 0; i < 3; i++) {
        struct test_large payload = {.owned = {&tally.dropped, 1}};

        tally.owned++;
        if (!is_ok(troupe_timer_once(self, 50 + i, owning[i], &payload, 1))) {
            tally.kept++;
        }
        tally.owned++;
        if (!is_ok(troupe_send_after(
                self, troupe_self_ref(self), owning[i], &payload, 1, NULL))) {
            tally.kept++;
        }
    }
    (void)is_ok(troupe_timer_fixed_delay(self, 60, &huge, bytes, 1, 1));
    (void)is_ok(troupe_timer_fixed_rate(self, 61, &huge, bytes, 1, 1));
    if (is_ok(troupe_receive_timeout(self, 1))) {
        (void)is_ok(troupe_receive_timeout(self, 2));
    }
}

static troupe_verdict
be_timed(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)state;
    switch (troupe_msg_tag(msg)) {
    case TEST_TAG_EMPTY:
        start_timers(self);
        break;
    case TEST_TAG_NUMBER:
        once_fired++;
        break;
    case 77:
        if (++large_fired % 3 == 0) {
            (void)troupe_timer_cancel(self, 60);
            (void)troupe_timer_cancel(self, 61);
        }
        break;
    case TROUPE_TAG_IDLE:
        cr_assert_eq(troupe_receive_timeout(self, TROUPE_NEVER), TROUPE_OK);
        break;
    default:
        break;
    }
    return TROUPE_CONTINUE;
}

static const troupe_actor_type timed = {.size = sizeof(troupe_actor_type),
    .name = "timed",
    .receive = be_timed};

static troupe_ref timed_actor;

static void
prepare_timers(troupe_system *system)
{
    once_started = once_fired = large_fired = 0;
    timed_actor = spawn(system, &timed, NULL, 0);
    test_run(system);
}

static bool
have_all_fired(void *user)
{
    troupe_system *system = user;

    if (troupe_system_seed(system) != 0) {
        cr_assert_eq(troupe_system_advance(system, TROUPE_MS(1)), TROUPE_OK);
    }
    test_run(system);
    return test_counters(system).timers == 0;
}

/* One that was started fires, late if need be. */
static void
run_timers(troupe_system *system)
{
    struct test_large payload = {.owned = {&tally.dropped, 1}};

    if (is_ok(troupe_post(system, timed_actor, &test_empty, NULL))) {
        test_run(system);
    }
    tally.owned++;
    if (!is_ok(troupe_post_after(
            system, timed_actor, &test_large, &payload, 1, NULL))) {
        tally.kept++;
    }
    cr_assert(test_await(have_all_fired, system));
    cr_assert_eq(once_fired, once_started);
}

Test(fault_memory, timers)
{
    fail_each(&(struct scenario){prepare_timers, run_timers, 10});
}

Test(fault_memory, a_stash)
{
    fail_each(&(struct scenario){NULL, run_plain_stash, 0});
}

Test(fault_memory, a_bounded_mailbox)
{
    fail_each(&(struct scenario){NULL, run_bounded, 0});
}

Test(fault_memory, a_mailbox_that_drops_the_oldest)
{
    fail_each(&(struct scenario){NULL, run_drop_head, 0});
}

Test(fault_memory, a_priority_mailbox)
{
    fail_each(&(struct scenario){NULL, run_priority, 0});
}

/* --- many that can run ---------------------------------------------------- */

static troupe_ref crowd[1000];

static void
prepare_crowd(troupe_system *system)
{
    for (uint32_t i = 0; i < 1000; i++) {
        crowd[i] = spawn(system, &test_plain, NULL, 0);
    }
    test_run(system);
}

/* The queues of cells grow, too; a cell that finds no place still runs. */
static void
run_crowd(troupe_system *system)
{
    uint64_t handled = test_counters(system).handled;
    uint32_t accepted = 0;

    for (uint64_t i = 0; i < 3000; i++) {
        accepted +=
            is_ok(troupe_post(system, crowd[i % 1000], &test_number, &i));
    }
    test_run(system);
    cr_assert_eq(test_counters(system).handled - handled, accepted);
}

Test(fault_memory, many_that_can_run)
{
    fail_each(&(struct scenario){prepare_crowd, run_crowd, 0});
}

/* --- with workers --------------------------------------------------------- */

static _Atomic uint64_t told;
extern const troupe_actor_type divider;

static troupe_verdict
divide(troupe_self *self, void *state, const troupe_msg *msg)
{
    static const char bytes[5000];
    const uint64_t *left = troupe_payload(msg, uint64_t);
    struct test_large payload = {.owned = {&tally.dropped, 1}};
    troupe_ref child = TROUPE_NONE;

    (void)state;
    if (left == NULL || *left == 0) {
        return TROUPE_DONE;
    }
    for (uint64_t i = 0; i < 4; i++) {
        const uint64_t less = *left - 1;

        if (troupe_spawn(self, &divider, NULL, &child) == TROUPE_OK) {
            troupe_tell(self, child, &test_number, &less);
            troupe_tell_bytes(self, recorder, &test_bytes, bytes, 5000);
            troupe_tell(self, recorder, &test_large, &payload);
            atomic_fetch_add(&told, 1);
        }
    }
    return TROUPE_CONTINUE;
}

const troupe_actor_type divider = {.size = sizeof(troupe_actor_type),
    .name = "divider",
    .state_bytes = 3000,
    .receive = divide};

Test(fault_memory, while_workers_run)
{
    for (uint64_t nth = 1; nth <= 30; nth++) {
        troupe_system *system = test_open_threads(2);
        troupe_ref top = TROUPE_NONE;
        const uint64_t levels = 5;

        recorder = spawn(system, &test_plain, "recorder", 0);
        top = spawn(system, &divider, "top", 0);
        cr_assert_eq(troupe_system_await_idle(system, TROUPE_S(60)), TROUPE_OK);
        if (nth % 2 == 0) {
            test_memory.fail_at = test_memory.requests + nth * nth;
        } else {
            test_memory.fail_above = 100 * nth;
        }
        cr_assert_eq(
            troupe_post(system, top, &test_number, &levels), TROUPE_OK);
        cr_assert_eq(troupe_system_await_idle(system, TROUPE_S(60)), TROUPE_OK);
        cr_assert_eq(troupe_system_stop(system), TROUPE_OK);
        test_memory.fail_above = 0;
        test_memory.fail_at = 0;
        test_close(system);
        cr_assert_eq(tally.dropped, told);
    }
    cr_assert_gt(test_letters.by_reason[TROUPE_DEAD_REFUSED], 0);
}

/* --- creation ------------------------------------------------------------- */

static void
create_failing(const troupe_system_options *options, uint64_t least)
{
    troupe_status status = TROUPE_E_NOMEM;
    uint64_t nth;

    for (nth = 1; status != TROUPE_OK; nth++) {
        troupe_system *system = NULL;

        memset(&test_memory, 0, sizeof test_memory);
        test_memory.fail_at = nth;
        status = troupe_system_create(options, &system);
        if (status == TROUPE_OK) {
            cr_assert_lt(test_memory.requests, nth);
            test_memory.fail_at = 0;
            cr_assert_eq(troupe_system_destroy(system), TROUPE_OK);
        } else {
            cr_assert_eq(status, TROUPE_E_NOMEM);
            cr_assert_null(system, "untouched");
        }
        cr_assert(
            test_alloc_is_empty(&test_memory), "request %u", (unsigned)nth);
    }
    cr_assert_gt(nth, least);
}

Test(fault_memory, creation_of_a_driven_system)
{
    troupe_system_options options = test_options();

    options.flags |= TROUPE_SYSTEM_DRIVEN;
    create_failing(&options, 4);
}

Test(fault_memory, creation_of_a_system_that_keeps_dead_letters)
{
    troupe_system_options options = test_options();

    options.flags |= TROUPE_SYSTEM_DRIVEN;
    options.dead_letters = &letters;
    create_failing(&options, 5);
}

Test(fault_memory, creation_of_a_system_with_workers)
{
    troupe_system_options options = test_options();

    options.workers = 3;
    create_failing(&options, 4);
}

/* From then on nothing: what is there goes on, and ends. */
Test(fault_memory, none_at_all_any_more)
{
    troupe_system *system = test_open_driven(0);
    uint32_t accepted = 0;

    prepare_actors(system);
    test_memory.fail_above = 1;
    for (uint64_t i = 0; i < 100; i++) {
        troupe_ref ref = TROUPE_NONE;
        troupe_status status = troupe_system_spawn(system, &large, NULL, &ref);

        cr_assert_eq(status, TROUPE_E_NOMEM);
        accepted += is_ok(troupe_post(system, recorder, &test_number, &i));
    }
    test_run(system);
    cr_assert_eq(record.count, accepted);
    cr_assert_eq(troupe_system_stop(system), TROUPE_OK);
    test_close(system);
}

/* A size of which the pool has no more comes from the heap. */
Test(fault_memory, of_one_size_is_no_refusal)
{
    static const troupe_actor_type medium = {.size = sizeof medium,
        .name = "medium",
        .state_bytes = 1500,
        .receive = test_ignore};
    troupe_system *system = test_open_driven(0);
    troupe_ref ref = TROUPE_NONE;
    troupe_msg *msg;

    prepare_actors(system);
    for (size_t bytes = 20; bytes <= 2000; bytes += 60) {
        troupe_fail_allocation(system, 1);
        msg = troupe_msg_new(system, &test_bytes, bytes);
        cr_assert_not_null(msg);
        cr_assert_eq(troupe_post_msg(system, recorder, msg), TROUPE_OK);
    }
    troupe_fail_allocation(system, 1);
    cr_assert_eq(troupe_system_spawn(system, &medium, NULL, &ref), TROUPE_OK);
    troupe_fail_allocation(system, 0);
    test_run(system);
    cr_assert_eq(troupe_system_stop(system), TROUPE_OK);
    test_close(system);
}

/* A notice that there is no memory for is not waited for. */
Test(fault_memory, of_a_notice_does_not_keep_a_stop_waiting)
{
    troupe_system *system = test_open_driven(0);
    uint32_t done = 0;

    for (uint32_t nth = 1; nth < 40; nth++) {
        troupe_ref refs[8];
        troupe_status status;

        for (int i = 0; i < 8; i++) {
            refs[i] = test_spawn_doer(system, NULL);
        }
        test_run(system);
        troupe_fail_allocation(system, nth);
        status = troupe_stop_wait(system, refs, 8, TROUPE_FOREVER);
        troupe_fail_allocation(system, 0);
        done += is_ok(status) ? 1 : 0;
    }
    cr_assert_gt(done, 0);
    test_close(system);
}

/* --- breakers ------------------------------------------------------------- */

static void
run_breakers(troupe_system *system)
{
    static const troupe_breaker_options options = {
        .size = TROUPE_OPTIONS(troupe_breaker_options),
        .max_failures = 1,
        .reset_ns = 1};
    troupe_breaker *breakers[3] = {NULL};

    for (int i = 0; i < 3; i++) {
        if (!is_ok(troupe_breaker_create(system, &options, &breakers[i]))) {
            cr_assert_null(breakers[i]);
        }
    }
    for (int i = 0; i < 3; i++) {
        troupe_breaker_destroy(breakers[i]);
    }
}

Test(fault_memory, breakers)
{
    fail_each(&(struct scenario){NULL, run_breakers, 3});
}

/* --- shutdown ------------------------------------------------------------- */

static troupe_status
count_task(troupe_system *system, const char *reason, void *user)
{
    uint32_t *tasks = user;

    (void)system;
    (void)reason;
    (*tasks)++;
    return TROUPE_OK;
}

/* What was accepted runs, what was not can be tried again. */
static void
run_shutdown(troupe_system *system)
{
    static const troupe_phase_options phase = {
        .size = TROUPE_OPTIONS(troupe_phase_options), .name = "phase"};
    uint32_t accepted = 0;
    uint32_t tasks = 0;

    if (!is_ok(troupe_shutdown_add_phase(system, &phase))) {
        cr_assert_eq(troupe_shutdown_add_phase(system, &phase), TROUPE_OK);
    }
    for (char name[] = "a"; name[0] <= 'e'; name[0]++) {
        accepted += is_ok(
            troupe_shutdown_add(system, "phase", name, count_task, &tasks));
    }
    troupe_shutdown_request(system, "no memory");
    test_run(system);
    cr_assert_eq(tasks, accepted);
}

Test(fault_memory, shutdown)
{
    fail_each(&(struct scenario){NULL, run_shutdown, 6});
}

/* --- metrics -------------------------------------------------------------- */

static char *metrics_text;
static size_t metrics_bytes;

static bool
keep_text(const char *text, size_t bytes, void *user)
{
    (void)user;
    metrics_text = realloc(metrics_text, metrics_bytes + bytes + 1);
    cr_assert_not_null(metrics_text);
    memcpy(metrics_text + metrics_bytes, text, bytes);
    metrics_bytes += bytes;
    metrics_text[metrics_bytes] = '\0';
    return true;
}

/* Only one request fails: at the second try there is a text. */
static void
read_metrics(troupe_system *system)
{
    metrics_bytes = 0;
    if (!is_ok(troupe_metrics_write(
            system, TROUPE_METRICS_PROMETHEUS, keep_text, NULL))) {
        cr_assert_eq(metrics_bytes, 0, "nothing was written");
        cr_assert_eq(troupe_metrics_write(
                         system, TROUPE_METRICS_PROMETHEUS, keep_text, NULL),
            TROUPE_OK);
    }
}

/* All series of a metric together: nothing is lost, only its name may be. */
static double
sum_of_metric(const char *name)
{
    size_t length = strlen(name);
    double sum = 0;

    for (const char *line = metrics_text; *line != '\0';
         line = strchr(line, '\n') + 1) {
        if (strncmp(line, name, length) == 0 &&
            (line[length] == '{' || line[length] == ' ')) {
            sum += strtod(line + strcspn(line, " ") + 1, NULL);
        }
    }
    return sum;
}

static const char *const metric_names[] = {"f_total", "f_open", "f_seconds"};
static troupe_series metric_series[3];
static bool metric_is_made[3];

static troupe_verdict
use_metrics(troupe_self *self, const troupe_msg *msg, void *user)
{
    troupe_system *system = user;

    (void)self;
    (void)msg;
    troupe_metric_add(system, metric_series[0], 1);
    troupe_metric_add(system, metric_series[1], 1);
    troupe_metric_observe(system, metric_series[2], 1);
    return TROUPE_CONTINUE;
}

static void
make_metrics(troupe_system *system)
{
    for (int i = 0; i < 3; i++) {
        troupe_metric_options options = TROUPE_INIT(troupe_metric_options);

        options.name = metric_names[i];
        options.kind = (troupe_metric_kind)i;
        metric_series[i] = (troupe_series){0};
        metric_is_made[i] = is_ok(
            troupe_metric_series(system, &options, NULL, &metric_series[i]));
        cr_assert_eq(metric_is_made[i], metric_series[i].id != 0);
    }
}

/* Many enough that words of a second segment are needed. */
static uint32_t
fill_metrics(troupe_system *system)
{
    static const char *const labels[] = {"l", NULL};
    troupe_metric_options options = TROUPE_INIT(troupe_metric_options);
    uint32_t made = 0;

    options.name = "many_total";
    options.labels = labels;
    for (uint32_t i = 0; i < 70; i++) {
        char value[8];
        const char *const values[] = {value, NULL};
        troupe_series series = {0};

        (void)snprintf(value, sizeof value, "%u", i);
        if (is_ok(troupe_metric_series(system, &options, values, &series))) {
            troupe_metric_add(system, series, 1);
            made++;
        }
    }
    return made;
}

static void
run_metrics(troupe_system *system)
{
    uint32_t spawned = 0, many;
    uint64_t started;

    troupe_metrics_enable(system, true);
    make_metrics(system);
    test_do(system, doer, use_metrics, system);
    (void)use_metrics(NULL, NULL, system);
    many = fill_metrics(system);
    started = test_counters(system).started;
    (void)spawn(system, &test_plain, NULL, 0);
    (void)spawn(system, &family, NULL, 0);
    spawned = (uint32_t)(test_counters(system).started - started);
    troupe_post_tell(system, TROUPE_NONE, &test_number, &(uint64_t){1});
    read_metrics(system);
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(sum_of_metric(metric_names[i]), metric_is_made[i] ? 2 : 0);
        cr_assert_eq(strstr(metrics_text, metric_names[i]) != NULL,
            metric_is_made[i], "what could not be made is not seen");
    }
    cr_assert_eq(sum_of_metric("f_seconds_count"), metric_is_made[2] ? 2 : 0);
    cr_assert_eq(sum_of_metric("f_seconds_sum"), metric_is_made[2] ? 2 : 0);
    cr_assert_eq(sum_of_metric("many_total"), many);
    cr_assert_eq(sum_of_metric("troupe_class_started_total"), spawned);
    cr_assert_eq(sum_of_metric("actor_dead_letters_total"),
        (double)test_counters(system).dead);
    free(metrics_text);
    metrics_text = NULL;
}

Test(fault_memory, metrics)
{
    fail_each(&(struct scenario){prepare_actors, run_metrics, 90});
}
