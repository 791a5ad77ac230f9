/* SPDX-License-Identifier: MIT */
#include "support/await.h"
#include "support/scrape.h"
#include "support/system.h"

#include <troupe/port.h>
#include <troupe/testkit.h>

#include <criterion/criterion.h>

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What every system has: each number is that of the test's own count. */

static troupe_system *the_system;
static troupe_dead_letter_options letters;

static void
open_with(uint32_t workers, troupe_switch metrics)
{
    troupe_system_options options = test_options();

    options.workers = workers;
    if (workers == 0) { /* virtual time: what is kept for a second ends */
        options.flags |= TROUPE_SYSTEM_DRIVEN;
        options.seed = 7;
    }
    options.metrics = metrics;
    options.dead_letters = letters.size != 0 ? &letters : NULL;
    the_system = test_open(&options);
}

static void
open_the_system(void)
{
    open_with(0, TROUPE_SWITCH_ON);
}

static void
close_the_system(void)
{
    test_close(the_system);
}

TestSuite(metrics_stock, .init = open_the_system, .fini = close_the_system);

static void
open_again(uint32_t workers, troupe_switch metrics)
{
    close_the_system();
    open_with(workers, metrics);
}

#define EXPECT(series, value)                                                  \
    cr_assert_eq(test_sample(the_system, series), (value), "%s is %g", series, \
        test_sample(the_system, series))
#define EXPECT_NONE(series)                                                    \
    cr_assert(isnan(test_sample(the_system, series)), "%s", (series))

/* So that the next look at all cells is a new one. */
static void
pass_a_second(void)
{
    cr_assert_eq(troupe_system_advance(the_system, TROUPE_S(1)), TROUPE_OK);
}

static troupe_ref
spawn(const troupe_actor_type *type, const troupe_spawn_options *options)
{
    troupe_ref ref = TROUPE_NONE;

    cr_assert_eq(
        troupe_system_spawn(the_system, type, options, &ref), TROUPE_OK);
    return ref;
}

/* --- the life of actors --------------------------------------------------- */

static uint32_t starts_that_fail;

static troupe_status
start_at_last(troupe_self *self, void *state, const void *arg)
{
    (void)self;
    (void)state;
    (void)arg;
    return starts_that_fail != 0 && starts_that_fail-- != 0 ? TROUPE_E_STATE
                                                            : TROUPE_OK;
}

static troupe_verdict
fail_always(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)state;
    (void)msg;
    return troupe_fail(self, 1);
}

static const troupe_actor_type starter = {.size = sizeof(troupe_actor_type),
    .name = "starter",
    .receive = fail_always,
    .start = start_at_last};

static troupe_verdict
fail_now(troupe_self *self, const troupe_msg *msg, void *user)
{
    (void)msg;
    (void)user;
    return troupe_fail(self, 1);
}

Test(metrics_stock, who_has_no_start_is_created_at_once)
{
    (void)spawn(&test_plain, NULL);
    EXPECT("actor_created_total", 1);
    EXPECT("troupe_class_started_total{class=\"plain\"}", 1);
}

Test(metrics_stock, who_starts_is_created_when_that_went_well)
{
    (void)spawn(&starter, NULL);
    EXPECT("actor_created_total", 0);
    test_run(the_system);
    EXPECT("actor_created_total", 1);
    EXPECT("actor_restarted_total", 0);
}

Test(metrics_stock, who_starts_at_the_third_try_is_created_once)
{
    starts_that_fail = 2;
    (void)spawn(&starter, NULL);
    test_run(the_system);
    EXPECT("actor_created_total", 1);
    EXPECT("actor_restarted_total", 2);
    EXPECT("troupe_class_restarted_total{class=\"starter\"}", 2);
}

Test(metrics_stock, who_never_started_is_not_created_but_terminated)
{
    starts_that_fail = UINT32_MAX;
    (void)spawn(&starter, NULL);
    test_run(the_system);
    EXPECT("actor_created_total", 0);
    EXPECT("actor_terminated_total", 1);
    starts_that_fail = 0;
    (void)spawn(&starter, NULL);
    test_run(the_system);
    EXPECT("actor_created_total", 1);
}

Test(metrics_stock, a_restart_is_no_creation)
{
    troupe_ref doer = test_spawn_doer(the_system, NULL);
    troupe_ref starts = spawn(&starter, NULL);

    test_run(the_system);
    test_do(the_system, doer, fail_now, NULL);
    test_post_number(the_system, starts, 1);
    test_run(the_system);
    EXPECT("actor_created_total", 2);
    EXPECT("actor_restarted_total", 2);
    (void)spawn(&starter, NULL);
    EXPECT("actor_created_total", 2);
    cr_assert_eq(troupe_post_stop(the_system, starts), TROUPE_OK);
    test_run(the_system);
    EXPECT("actor_terminated_total", 1);
    EXPECT("troupe_class_stopped_total{class=\"starter\"}", 1);
    EXPECT("troupe_class_restarted_total{class=\"starter\"}", 1);
}

Test(metrics_stock, types_of_one_name_are_one_class)
{
    static const troupe_actor_type again = {.size = sizeof(troupe_actor_type),
        .name = "plain",
        .receive = test_ignore};
    static const troupe_actor_type odd = {.size = sizeof(troupe_actor_type),
        .name = "a\"b",
        .receive = test_ignore};

    (void)spawn(&test_plain, NULL);
    (void)spawn(&again, NULL);
    (void)spawn(&again, NULL);
    (void)spawn(&odd, NULL);
    EXPECT("troupe_class_started_total{class=\"plain\"}", 3);
    EXPECT("troupe_class_actors{class=\"plain\"}", 3);
    EXPECT("troupe_class_actors{class=\"a\\\"b\"}", 1);
    EXPECT_NONE("troupe_class_actors{class=\"__overflow__\"}");
}

/* --- messages ------------------------------------------------------------- */

static troupe_verdict
stash_first(troupe_self *self, const troupe_msg *msg, void *user)
{
    uint32_t *seen = user;

    (void)msg;
    if ((*seen)++ == 0) {
        return troupe_check(self, troupe_stash(self));
    }
    return troupe_check(self, troupe_unstash(self, 0));
}

static troupe_verdict
take(troupe_self *self, const troupe_msg *msg, void *user)
{
    (void)self;
    (void)msg;
    (void)user;
    return TROUPE_CONTINUE;
}

static troupe_verdict
leave(troupe_self *self, const troupe_msg *msg, void *user)
{
    (void)self;
    (void)msg;
    (void)user;
    return TROUPE_UNHANDLED;
}

Test(metrics_stock, delivered_is_what_behaviours_were_shown)
{
    troupe_ref doer = test_spawn_doer(the_system, NULL);
    uint32_t seen = 0;

    test_do(the_system, doer, take, NULL);
    EXPECT("actor_messages_delivered_total", 1);
    test_do(the_system, doer, leave, NULL);
    EXPECT("actor_messages_delivered_total", 2);
    EXPECT("troupe_handled_total", 1);
    EXPECT("troupe_dead_letters_total{reason=\"unhandled\"}", 1);
    test_do(the_system, doer, stash_first, &seen);
    EXPECT("actor_messages_delivered_total", 3);
    EXPECT("troupe_queued", 1);
    test_do(the_system, doer, stash_first, &seen);
    cr_assert_eq(seen, 3);
    EXPECT("actor_messages_delivered_total", 5);
    cr_assert_eq(troupe_post_stop(the_system, doer), TROUPE_OK);
    test_run(the_system);
    EXPECT("actor_messages_delivered_total", 5);
}

static void
post_numbers(troupe_ref to, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        cr_assert_eq(troupe_post(the_system, to, &test_number, &i), TROUPE_OK);
    }
}

static troupe_ref
spawn_bounded(const troupe_actor_type *type, troupe_overflow overflow)
{
    troupe_mailbox_options mailbox = TROUPE_INIT(troupe_mailbox_options);
    troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);

    mailbox.capacity = 4;
    mailbox.overflow = overflow;
    options.mailbox = &mailbox;
    return spawn(type, &options);
}

Test(metrics_stock, drops_are_counted_by_class_and_reason)
{
    static const troupe_actor_type other = {.size = sizeof(troupe_actor_type),
        .name = "other",
        .receive = test_ignore};
    troupe_throttle_options throttle = TROUPE_INIT(troupe_throttle_options);
    troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);

    post_numbers(spawn_bounded(&test_plain, TROUPE_OVERFLOW_DROP_HEAD), 7);
    post_numbers(spawn_bounded(&test_plain, TROUPE_OVERFLOW_DROP_NEW), 9);
    post_numbers(spawn_bounded(&other, TROUPE_OVERFLOW_DROP_NEW), 10);
    EXPECT(
        "actor_mailbox_dropped_total{class=\"plain\",reason=\"drop-head\"}", 3);
    EXPECT(
        "actor_mailbox_dropped_total{class=\"plain\",reason=\"drop-new\"}", 5);
    EXPECT(
        "actor_mailbox_dropped_total{class=\"other\",reason=\"drop-new\"}", 6);
    EXPECT_NONE(
        "actor_mailbox_dropped_total{class=\"other\",reason=\"drop-head\"}");
    throttle.per_second = 2;
    throttle.on_excess = TROUPE_EXCESS_DROP;
    options.throttle = &throttle;
    post_numbers(spawn(&other, &options), 5);
    test_run(the_system);
    EXPECT(
        "actor_mailbox_dropped_total{class=\"other\",reason=\"throttle\"}", 3);
    EXPECT("troupe_dropped_total", 17);
}

Test(metrics_stock, ten_thousand_that_overflow_are_still_one_series)
{
    char *text;

    for (int i = 0; i < 10000; i++) {
        post_numbers(spawn_bounded(&test_plain, TROUPE_OVERFLOW_DROP_HEAD), 5);
    }
    text = test_scrape(the_system, TROUPE_METRICS_PROMETHEUS);
    cr_assert_lt(strlen(text), 64 * 1024);
    cr_assert_eq(test_sample_of(text, "actor_mailbox_dropped_total{class="
                                      "\"plain\",reason=\"drop-head\"}"),
        10000);
    free(text);
}

Test(metrics_stock, the_equation_of_the_books_can_be_read)
{
    troupe_ref plain = spawn(&test_plain, NULL);
    troupe_ref full = spawn_bounded(&test_plain, TROUPE_OVERFLOW_REJECT);
    uint64_t n = 1;
    troupe_counters c;

    post_numbers(plain, 5);
    post_numbers(full, 4);
    cr_assert_eq(
        troupe_post(the_system, full, &test_number, &n), TROUPE_E_FULL);
    troupe_post_tell(the_system, full, &test_number, &n);
    c = test_counters(the_system);
    EXPECT("troupe_sent_total", 11);
    EXPECT("troupe_refused_total", 1);
    EXPECT("troupe_dead_total", 1);
    EXPECT("troupe_queued", 9);
    EXPECT("troupe_injector_length", 2);
    cr_assert_eq(c.queued, 9);
    test_run(the_system);
    EXPECT("troupe_handled_total", 9);
    EXPECT("troupe_queued", 0);
    EXPECT("troupe_injector_length", 0);
}

/* --- dead letters --------------------------------------------------------- */

#define LETTER(outcome, recipient)                                             \
    "actor_dead_letters_total{outcome=\"" outcome "\",recipient=\"" recipient  \
    "\"}"

static bool
keep_id(const troupe_dead_letter_entry *entry, void *user)
{
    *(uint64_t *)user = entry->id;
    return false;
}

Test(metrics_stock, letters_are_counted_by_outcome_and_recipient)
{
    const uint64_t n = 1;
    troupe_ref named, nameless, gone;
    uint64_t id = 0;

    letters = TROUPE_INIT(troupe_dead_letter_options);
    letters.capacity = 10;
    open_again(0, TROUPE_SWITCH_ON);
    named = test_spawn_doer(the_system, "mine");
    nameless = test_spawn_doer(the_system, NULL);
    gone = test_dead_actor(the_system);
    test_do(the_system, named, leave, NULL);
    test_do(the_system, named, leave, NULL);
    test_do(the_system, nameless, leave, NULL);
    troupe_post_tell(the_system, gone, &test_number, &n);
    troupe_post_tell(the_system, TROUPE_NONE, &test_number, &n);
    EXPECT(LETTER("captured", "/user/mine"), 2);
    EXPECT(LETTER("captured", "/user/*"), 1);
    EXPECT(LETTER("captured", "gone"), 1);
    EXPECT(LETTER("captured", "nobody"), 1);
    EXPECT(LETTER("captured", "unknown"), 0);
    EXPECT(LETTER("replayed", "unknown"), 0);
    EXPECT("troupe_dead_letters_total{reason=\"unhandled\"}", 3);
    EXPECT("troupe_dead_letters_total{reason=\"stopped\"}", 1);
    EXPECT("troupe_dead_letters_total{reason=\"no_sender\"}", 1);
    EXPECT("troupe_dead_total", 5);

    cr_assert_eq(
        troupe_dead_letters_list(the_system, NULL, keep_id, &id), TROUPE_OK);
    cr_assert_eq(troupe_dead_letters_replay(the_system, id, named), TROUPE_OK);
    cr_assert_eq(
        troupe_dead_letters_list(the_system, NULL, keep_id, &id), TROUPE_OK);
    cr_assert_eq(
        troupe_dead_letters_replay(the_system, id, TROUPE_NONE), TROUPE_E_DEAD);
    EXPECT(LETTER("replayed", "/user/mine"), 1);
    EXPECT(LETTER("replay-failed", "gone"), 1);
}

Test(metrics_stock, a_store_that_only_counts_has_captured)
{
    test_do(the_system, test_spawn_doer(the_system, "mine"), leave, NULL);
    EXPECT(LETTER("captured", "/user/mine"), 1);
}

/* --- deep mailboxes ------------------------------------------------------- */

Test(metrics_stock, a_mailbox_has_a_series_while_it_is_deep)
{
    troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);
    troupe_ref deep;
    char *text;

    options.name = "deep";
    deep = spawn(&test_plain, &options);
    post_numbers(deep, 10000);
    options.name = "other";
    post_numbers(spawn(&test_plain, &options), 9999);
    EXPECT("actor_mailbox_size{class=\"plain\","
           "path=\"troupe://troupe/user/deep\"}",
        10000);
    EXPECT_NONE("actor_mailbox_size{class=\"plain\","
                "path=\"troupe://troupe/user/other\"}");
    EXPECT("troupe_class_queued{class=\"plain\"}", 19999);
    EXPECT("troupe_class_deepest{class=\"plain\"}", 10000);
    EXPECT("troupe_class_actors{class=\"plain\"}", 2);
    test_run(the_system);
    pass_a_second();
    text = test_scrape(the_system, TROUPE_METRICS_PROMETHEUS);
    cr_assert_null(strstr(text, "actor_mailbox_size{"));
    cr_assert_eq(
        test_sample_of(text, "troupe_class_queued{class=\"plain\"}"), 0);
    free(text);
}

Test(metrics_stock, a_port_can_be_deep_as_well)
{
    troupe_port *port;

    cr_assert_eq(troupe_port_open(the_system, NULL, &port), TROUPE_OK);
    post_numbers(troupe_port_ref(port), 10000);
    EXPECT("troupe_class_deepest{class=\"port\"}", 10000);
    troupe_port_close(port);
}

Test(metrics_stock, all_cells_are_looked_at_once_in_a_second)
{
    (void)spawn(&test_plain, NULL);
    EXPECT("troupe_class_actors{class=\"plain\"}", 1);
    (void)spawn(&test_plain, NULL);
    EXPECT("troupe_class_actors{class=\"plain\"}", 1);
    EXPECT("troupe_class_started_total{class=\"plain\"}", 2);
    pass_a_second();
    EXPECT("troupe_class_actors{class=\"plain\"}", 2);
}

/* --- on and off ----------------------------------------------------------- */

Test(metrics_stock, what_is_counted_anyway_is_right_when_switched_on)
{
    open_again(0, TROUPE_SWITCH_OFF);
    (void)spawn(&test_plain, NULL);
    post_numbers(spawn_bounded(&test_plain, TROUPE_OVERFLOW_DROP_NEW), 6);
    test_run(the_system);
    troupe_metrics_enable(the_system, true);
    EXPECT("actor_created_total", 2);
    EXPECT("actor_messages_delivered_total", 4);
    EXPECT("troupe_dropped_new_total", 2);
    EXPECT("troupe_class_actors{class=\"plain\"}", 2);
    EXPECT("troupe_class_started_total{class=\"plain\"}", 0);
    (void)spawn(&test_plain, NULL);
    EXPECT("troupe_class_started_total{class=\"plain\"}", 1);
    troupe_metrics_enable(the_system, false);
    (void)spawn(&test_plain, NULL);
    troupe_metrics_enable(the_system, true);
    EXPECT("troupe_class_started_total{class=\"plain\"}", 1);
    EXPECT("actor_created_total", 4);
}

static _Atomic uint64_t events;

static bool
count_event(const troupe_msg *msg, void *user)
{
    (void)msg;
    (void)user;
    atomic_fetch_add(&events, 1);
    return false;
}

static troupe_verdict
listen(troupe_self *self, const troupe_msg *msg, void *user)
{
    (void)msg;
    (void)user;
    return troupe_check(self,
        troupe_subscribe(self, TROUPE_TAG_ACTOR_STARTED, count_event, NULL));
}

Test(metrics_stock, switching_takes_no_event_from_who_subscribes)
{
    troupe_ref doer = test_spawn_doer(the_system, NULL);

    test_do(the_system, doer, listen, NULL);
    (void)spawn(&test_plain, NULL);
    troupe_metrics_enable(the_system, false);
    (void)spawn(&test_plain, NULL);
    troupe_metrics_enable(the_system, true);
    cr_assert_eq(troupe_post_stop(the_system, doer), TROUPE_OK);
    test_run(the_system);
    (void)spawn(&test_plain, NULL);
    cr_assert_eq(atomic_load(&events), 2);
    EXPECT("troupe_class_started_total{class=\"plain\"}", 2);
}

/* --- many threads --------------------------------------------------------- */

enum { WORKERS = 8, PARENTS = 40, CHILDREN = 25, EACH = 20 };

static _Atomic uint64_t handled_by_children, failed;

static troupe_verdict
be_child(troupe_self *self, void *state, const troupe_msg *msg)
{
    uint32_t *seen = state;

    (void)msg;
    atomic_fetch_add(&handled_by_children, 1);
    if (++*seen == EACH / 2) {
        atomic_fetch_add(&failed, 1);
        return troupe_fail(self, 1); /* and from 0 on again */
    }
    return TROUPE_CONTINUE;
}

static troupe_status
start_child(troupe_self *self, void *state, const void *arg)
{
    (void)self;
    (void)state;
    (void)arg;
    return TROUPE_OK;
}

static const troupe_actor_type child_type = {.size = sizeof(troupe_actor_type),
    .name = "child",
    .state_bytes = sizeof(uint32_t),
    .receive = be_child,
    .start = start_child};

static troupe_verdict
raise_children(troupe_self *self, const troupe_msg *msg, void *user)
{
    (void)msg;
    (void)user;
    for (uint32_t i = 0; i < CHILDREN; i++) {
        troupe_ref child = TROUPE_NONE;

        cr_assert_eq(troupe_spawn(self, &child_type, NULL, &child), TROUPE_OK);
        for (uint64_t n = 0; n < EACH; n++) {
            troupe_tell(self, child, &test_number, &n);
        }
        if (i % 5 == 0) {
            cr_assert_eq(troupe_stop(self, child), TROUPE_OK);
        }
    }
    return TROUPE_CONTINUE;
}

static double
sum_of_workers(const char *text, const char *name)
{
    double sum = 0;
    char series[64];

    for (int i = 0; i < WORKERS; i++) {
        (void)snprintf(series, sizeof series, "%s{worker=\"%d\"}", name, i);
        sum += test_sample_of(text, series);
    }
    return sum;
}

Test(metrics_stock, every_counter_is_exact_at_a_quiet_moment)
{
    const double children = PARENTS * CHILDREN;
    troupe_counters c;
    char *text;

    open_again(WORKERS, TROUPE_SWITCH_ON);
    for (int i = 0; i < PARENTS; i++) {
        test_do_later(the_system, test_spawn_doer(the_system, NULL),
            raise_children, NULL);
    }
    cr_assert_eq(
        troupe_system_await_idle(the_system, TROUPE_FOREVER), TROUPE_OK);
    text = test_scrape(the_system, TROUPE_METRICS_PROMETHEUS);
    c = test_counters(the_system);
    cr_assert_eq(handled_by_children, children * EACH);
    cr_assert_eq(failed, children * 2);
#define SAMPLE(series, value)                                                  \
    cr_assert_eq(test_sample_of(text, series), (double)(value), "%s is %g",    \
        series, test_sample_of(text, series))
    SAMPLE("actor_created_total", children + PARENTS);
    SAMPLE("actor_terminated_total", children / 5);
    SAMPLE("actor_restarted_total", failed);
    SAMPLE("actor_messages_delivered_total", handled_by_children + PARENTS);
    SAMPLE("troupe_class_started_total{class=\"child\"}", children);
    SAMPLE("troupe_class_stopped_total{class=\"child\"}", children / 5);
    SAMPLE("troupe_class_restarted_total{class=\"child\"}", failed);
    SAMPLE("troupe_class_actors{class=\"child\"}", children * 4 / 5);
    SAMPLE("troupe_turns_total", c.turns);
    SAMPLE("troupe_workers{state=\"parked\"}", WORKERS);
    SAMPLE("troupe_workers{state=\"busy\"}", 0);
#define COUNTER(name) SAMPLE("troupe_" #name "_total", c.name)
#define GAUGE(name) SAMPLE("troupe_" #name, c.name)
#define EACH_COUNTER(name, kind, help)                                         \
    if (strcmp(#name, "bytes") != 0) { /* the text is held from the heap */    \
        kind(name);                                                            \
    }
    TROUPE_COUNTER_MAP(EACH_COUNTER)
    cr_assert_eq(
        sum_of_workers(text, "troupe_worker_turns_total"), (double)c.turns);
    cr_assert_eq(
        sum_of_workers(text, "troupe_worker_steals_total"), (double)c.steals);
    cr_assert_eq(sum_of_workers(text, "troupe_worker_steal_misses_total"),
        (double)c.steal_misses);
    cr_assert_eq(
        sum_of_workers(text, "troupe_worker_parks_total"), (double)c.parks);
    cr_assert_eq(sum_of_workers(text, "troupe_worker_injected_total"),
        (double)c.injected);
    cr_assert_eq(sum_of_workers(text, "troupe_worker_queue"), 0);
    cr_assert_eq(sum_of_workers(text, "troupe_worker_busy"), 0);
    free(text);
}

static bool
is_one_busy(void *user)
{
    (void)user;
    return test_sample(the_system, "troupe_workers{state=\"busy\"}") == 1 &&
           test_sample(the_system, "troupe_workers{state=\"parked\"}") == 1;
}

Test(metrics_stock, a_handler_that_takes_long_is_seen_while_it_does)
{
    open_again(2, TROUPE_SWITCH_ON);
    test_do_later(
        the_system, test_spawn_doer(the_system, NULL), test_stay, NULL);
    cr_assert(test_await_at_least(&test_inside, 1));
    cr_assert(test_await(is_one_busy, NULL));
    cr_assert_eq(
        test_sample(the_system, "troupe_worker_busy{worker=\"0\"}") +
            test_sample(the_system, "troupe_worker_busy{worker=\"1\"}"),
        1);
    atomic_store(&test_may_leave, 1);
}

/* --- memory --------------------------------------------------------------- */

Test(metrics_stock, the_parts_of_memory_are_all_of_it)
{
    static const char *const parts[] = {"actors", "asks", "delayed", "heap",
        "mailboxes", "messages", "routers"};
    char *text;
    double sum = 0;

    post_numbers(spawn(&test_plain, NULL), 1000);
    text = test_scrape(the_system, TROUPE_METRICS_PROMETHEUS);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char series[64];

        (void)snprintf(series, sizeof series,
            "troupe_memory_bytes{part=\"%s\"}", parts[i]);
        sum += test_sample_of(text, series);
    }
    cr_assert_eq(sum, test_sample_of(text, "troupe_bytes"));
    cr_assert_gt(
        test_sample_of(text, "troupe_memory_bytes{part=\"mailboxes\"}"),
        32 * 1000);
    free(text);
}

Test(metrics_stock, it_says_what_it_is)
{
    char series[100];

    (void)snprintf(series, sizeof series,
        "troupe_info{system=\"troupe\",version=\"%s\"}", troupe_version_text());
    EXPECT(series, 1);
}

/* --- what is measured ----------------------------------------------------- */

#define DELAY(part)                                                            \
    "actor_dispatcher_queue_delay_seconds_" part "{dispatcher=\"default\"}"

/* Real time, which passes while this thread says so; turns run when it does. */
static void
open_in_real_time(void)
{
    troupe_system_options options = test_options();

    close_the_system();
    options.flags |= TROUPE_SYSTEM_DRIVEN;
    options.metrics = TROUPE_SWITCH_ON;
    the_system = test_open(&options);
}

static void
spin(uint64_t for_ns)
{
    uint64_t end_ns = test_clock_ns() + for_ns;

    while (test_clock_ns() < end_ns) {
    }
}

static troupe_verdict
take_six_ms(troupe_self *self, const troupe_msg *msg, void *user)
{
    (void)self;
    (void)msg;
    spin(TROUPE_MS(6));
    return user != NULL ? TROUPE_UNHANDLED : TROUPE_CONTINUE;
}

/* Those that come slower than one in 10 us are measured, all of them. */
Test(metrics_stock, slow_behaviours_are_measured_one_by_one)
{
    troupe_ref doer;
    uint64_t began_ns = test_clock_ns();

    open_in_real_time();
    doer = test_spawn_doer(the_system, NULL);
    for (int i = 0; i < 10; i++) {
        test_do(the_system, doer, take_six_ms, i % 2 == 0 ? NULL : &doer);
    }
    EXPECT("actor_message_handler_seconds_count", 10);
    EXPECT("actor_message_handler_seconds_bucket{le=\"0.005\"}", 0);
    cr_assert_geq(
        test_sample(the_system, "actor_message_handler_seconds_sum"), .0599);
    cr_assert_leq(test_sample(the_system, "actor_message_handler_seconds_sum"),
        (double)(test_clock_ns() - began_ns) / 1e9);
    EXPECT("actor_mailbox_depth_count", 10);
}

/* All but those since the last that was drawn. */
#define ABOUT(series, count)                                                   \
    cr_assert(test_sample(the_system, series) > (count)-128 &&                 \
                  test_sample(the_system, series) <= (count),                  \
        "%s is %g", series, test_sample(the_system, series))

Test(metrics_stock, quick_ones_are_drawn_and_stand_for_the_others)
{
    enum { MANY = 20000 };
    troupe_ref plain;

    open_in_real_time();
    plain = spawn(&test_plain, NULL);
    for (int i = 0; i < MANY; i++) { /* one in each turn */
        post_numbers(plain, 1);
        test_run(the_system);
    }
    ABOUT("actor_message_handler_seconds_count", MANY);
    ABOUT("actor_mailbox_depth_count", MANY);
    ABOUT("actor_mailbox_depth_bucket{le=\"1\"}", MANY);
    ABOUT("actor_mailbox_wait_seconds_count", MANY);
    ABOUT(DELAY("count"), MANY);
}

Test(metrics_stock, a_depth_is_what_is_there_with_the_message_at_hand)
{
    post_numbers(spawn(&test_plain, NULL), 5);
    test_run(the_system);
    EXPECT("actor_mailbox_depth_count", 5);
    EXPECT("actor_mailbox_depth_sum", 5 + 4 + 3 + 2 + 1);
    EXPECT("actor_mailbox_depth_bucket{le=\"1\"}", 1);
    EXPECT("actor_mailbox_depth_bucket{le=\"2\"}", 2);
    EXPECT("actor_mailbox_depth_bucket{le=\"5\"}", 5);
}

Test(metrics_stock, a_bounded_mailbox_has_a_depth_as_well)
{
    post_numbers(spawn_bounded(&test_plain, TROUPE_OVERFLOW_DROP_HEAD), 9);
    test_run(the_system);
    EXPECT("actor_mailbox_depth_count", 4);
    EXPECT("actor_mailbox_depth_sum", 4 + 3 + 2 + 1);
}

static troupe_ref
spawn_throttled(double per_second)
{
    troupe_throttle_options throttle = TROUPE_INIT(troupe_throttle_options);
    troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);

    throttle.per_second = per_second;
    throttle.burst = 1;
    options.throttle = &throttle;
    return spawn(&test_plain, &options);
}

Test(metrics_stock, a_wait_ends_when_the_behaviour_begins)
{
    troupe_ref slow = spawn_throttled(1);

    post_numbers(slow, 1);
    test_run(the_system);
    EXPECT("actor_mailbox_wait_seconds_count", 1);
    EXPECT("actor_mailbox_wait_seconds_sum", 0);
    post_numbers(slow, 1);
    test_run(the_system);
    EXPECT("actor_mailbox_wait_seconds_count", 1);
    /* The token comes then; an alarm may be a millisecond late. */
    cr_assert_eq(troupe_system_advance(the_system, TROUPE_S(2)), TROUPE_OK);
    EXPECT("actor_mailbox_wait_seconds_count", 2);
    cr_assert_float_eq(
        test_sample(the_system, "actor_mailbox_wait_seconds_sum"), 1, .0015);
    EXPECT("actor_mailbox_wait_seconds_bucket{le=\"0.5\"}", 1);
    EXPECT("actor_mailbox_wait_seconds_bucket{le=\"2\"}", 2);
}

Test(metrics_stock, one_wait_stands_for_those_that_came_meanwhile)
{
    post_numbers(spawn(&test_plain, NULL), 5);
    test_run(the_system);
    EXPECT("actor_mailbox_wait_seconds_count", 5);
}

/* Or the next one would seem to have waited since then. */
Test(metrics_stock, what_is_refused_does_not_wait)
{
    const uint64_t n = 1;
    troupe_ref full = spawn_bounded(&test_plain, TROUPE_OVERFLOW_REJECT);

    troupe_metrics_enable(the_system, false);
    post_numbers(full, 4);
    troupe_metrics_enable(the_system, true);
    cr_assert_eq(
        troupe_post(the_system, full, &test_number, &n), TROUPE_E_FULL);
    cr_assert_eq(troupe_system_advance(the_system, TROUPE_S(3)), TROUPE_OK);
    EXPECT("actor_mailbox_wait_seconds_count", 0);
    post_numbers(full, 1);
    test_run(the_system);
    EXPECT("actor_mailbox_wait_seconds_count", 1);
    EXPECT("actor_mailbox_wait_seconds_sum", 0);
}

TROUPE_MSG_TYPE_WITH(vital, uint64_t, 100, TROUPE_MSG_UNDROPPABLE, NULL);

Test(metrics_stock, what_a_throttle_drops_does_not_wait)
{
    troupe_throttle_options throttle = TROUPE_INIT(troupe_throttle_options);
    troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);
    const uint64_t n = 1;
    troupe_ref one;

    throttle.per_second = 1;
    throttle.on_excess = TROUPE_EXCESS_DROP;
    options.throttle = &throttle;
    one = spawn(&test_plain, &options);
    post_numbers(one, 1);
    test_run(the_system);
    post_numbers(one, 1); /* beyond its share; what follows costs none */
    cr_assert_eq(troupe_post(the_system, one, &vital, &n), TROUPE_OK);
    test_run(the_system);
    EXPECT("troupe_dropped_throttle_total", 1);
    EXPECT("troupe_handled_total", 2);
    EXPECT("actor_mailbox_wait_seconds_count", 1);
    post_numbers(one, 1); /* dropped as well, and nothing follows */
    test_run(the_system);
    cr_assert_eq(troupe_system_advance(the_system, TROUPE_S(2)), TROUPE_OK);
    post_numbers(one, 1);
    test_run(the_system);
    EXPECT("actor_mailbox_wait_seconds_count", 2);
    EXPECT("actor_mailbox_wait_seconds_sum", 0);
}

/* The first to stop leaves a probe behind; its cell is used again. */
Test(metrics_stock, who_stops_with_messages_leaves_no_wait)
{
    troupe_ref stopped = spawn_throttled(1);

    post_numbers(stopped, 1);
    test_run(the_system);
    post_numbers(stopped, 1);
    test_run(the_system);
    cr_assert_eq(troupe_post_stop_now(the_system, stopped), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(troupe_system_advance(the_system, TROUPE_S(3)), TROUPE_OK);
    post_numbers(spawn(&test_plain, NULL), 1);
    test_run(the_system);
    EXPECT("actor_mailbox_wait_seconds_count", 2);
    EXPECT("actor_mailbox_wait_seconds_sum", 0);
}

Test(metrics_stock, an_actor_waits_for_a_worker_until_its_turn_begins)
{
    troupe_ref plain;

    open_in_real_time();
    plain = spawn(&test_plain, NULL);
    post_numbers(plain, 3);
    spin(TROUPE_MS(6));
    test_run(the_system);
    EXPECT(DELAY("count"), 1);
    EXPECT("actor_dispatcher_queue_delay_seconds_bucket{dispatcher="
           "\"default\",le=\"0.005\"}",
        0);
    cr_assert_geq(test_sample(the_system, DELAY("sum")), .0059);
}

Test(metrics_stock, it_waits_again_when_its_share_is_used_up)
{
    troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);

    options.throughput = 2;
    post_numbers(spawn(&test_plain, &options), 7);
    test_run(the_system);
    EXPECT("troupe_turns_total", 4);
    EXPECT(DELAY("count"), 4);
    EXPECT("actor_mailbox_depth_count", 7);
}

Test(metrics_stock, while_off_nothing_is_measured)
{
    troupe_ref plain = spawn(&test_plain, NULL);

    post_numbers(plain, 1);
    test_run(the_system);
    troupe_metrics_enable(the_system, false);
    post_numbers(plain, 5);
    test_run(the_system);
    troupe_metrics_enable(the_system, true);
    EXPECT("actor_message_handler_seconds_count", 1);
    EXPECT("actor_mailbox_depth_count", 1);
    EXPECT("actor_mailbox_wait_seconds_count", 1);
    EXPECT(DELAY("count"), 1);
}

/* --- routers -------------------------------------------------------------- */

static void
expect_waits_behind(troupe_routing routing)
{
    enum { MANY = 5000 };
    troupe_router_options options = TROUPE_INIT(troupe_router_options);
    troupe_ref router = TROUPE_NONE;

    open_in_real_time();
    options.routing = routing;
    options.routees = 3;
    options.type = &test_plain;
    cr_assert_eq(
        troupe_system_spawn_router(the_system, &options, &router), TROUPE_OK);
    test_run(the_system);
    for (int i = 0; i < MANY; i++) {
        post_numbers(router, 1);
        test_run(the_system);
    }
    ABOUT("actor_mailbox_wait_seconds_count", MANY);
    ABOUT("actor_message_handler_seconds_count", MANY);
}

Test(metrics_stock, what_a_router_passes_on_in_turn_waits_like_any_other)
{
    expect_waits_behind(TROUPE_ROUTE_ROUND_ROBIN);
}

Test(metrics_stock, what_a_router_has_picked_for_waits_like_any_other)
{
    expect_waits_behind(TROUPE_ROUTE_SMALLEST_MAILBOX);
}
