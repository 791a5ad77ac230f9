/* SPDX-License-Identifier: MIT */
#include "support/system.h"

#include <troupe/event.h>
#include <troupe/inspect.h>
#include <troupe/port.h>
#include <troupe/stash.h>
#include <troupe/tree.h>

#include <criterion/criterion.h>

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/*
 * What a parent does when a child fails. Time is virtual; what happens is
 * written into a journal of words.
 */

static troupe_system *the_system;
static char journal[8192];

__attribute__((format(printf, 1, 2))) static void
note(const char *format, ...)
{
    size_t used = strlen(journal);
    va_list args;

    va_start(args, format);
    (void)vsnprintf(journal + used, sizeof journal - used, format, args);
    va_end(args);
}

/* The journal, which begins anew. */
static const char *
written(void)
{
    static char copy[sizeof journal];

    strcpy(copy, journal);
    journal[0] = '\0';
    return copy;
}

static bool is_over; /* the plans, which are the test's, are gone */

static void
setup(void)
{
    journal[0] = '\0';
    is_over = false;
    the_system = test_open_driven(11);
}

static void
teardown(void)
{
    is_over = true;
    test_close(the_system);
}

TestSuite(supervision, .init = setup, .fini = teardown);

/* --- actors --------------------------------------------------------------- */

#define MOST_CHILDREN 4

/* What an actor is; given to it as its argument, by address. */
struct plan {
    const char *name;
    uint32_t bad_starts; /* so many starts fail, with code 90 */
    uint32_t starts;
    troupe_ref ref;
    uint32_t own_children;
    struct plan *child[MOST_CHILDREN];
    troupe_spawn_options options; /* of the spawn */
    const troupe_actor_type *type;
};

struct worker {
    struct plan *plan;
    uint64_t count;
};

static void spawn_child(troupe_self *self, struct plan *plan);

static troupe_status
start_worker(troupe_self *self, void *state, const void *arg)
{
    struct worker *worker = state;

    cr_assert_eq(worker->count, 0, "the state is zeroed");
    memcpy(&worker->plan, arg, sizeof worker->plan);
    worker->plan->starts++;
    note("%s+ ", worker->plan->name);
    for (uint32_t i = 0; i < worker->plan->own_children; i++) {
        spawn_child(self, worker->plan->child[i]);
    }
    if (worker->plan->bad_starts > 0) {
        worker->plan->bad_starts--;
        (void)troupe_fail(self, 90);
        return TROUPE_E_FAILED;
    }
    return TROUPE_OK;
}

static void
stop_worker(troupe_self *self, void *state, const troupe_exit *why)
{
    struct worker *worker = state;

    (void)self;
    if (!is_over) {
        note("%s-%d ", worker->plan->name, (int)why->code);
    }
}

/* Number 0 is counted, 1 to 99 is a failure with that code. */
static troupe_verdict
receive_worker(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct worker *worker = state;
    uint64_t number = *troupe_payload(msg, uint64_t);

    if (number != 0 && number < 100) {
        note("%s!%d ", worker->plan->name, (int)number);
        return troupe_fail(self, (int32_t)number);
    }
    worker->count++;
    note("%s%d ", worker->plan->name, (int)worker->count);
    return TROUPE_CONTINUE;
}

static const troupe_actor_type worker_type = {
    .size = sizeof(troupe_actor_type),
    .name = "worker",
    .state_bytes = sizeof(struct worker),
    .receive = receive_worker,
    .start = start_worker,
    .stop = stop_worker,
};

static void
restart_worker(troupe_self *self, void *state, const troupe_exit *why)
{
    struct worker *worker = state;

    (void)self;
    cr_assert(troupe_ref_equal(why->actor, worker->plan->ref));
    note("%s~%d ", worker->plan->name, (int)why->code);
}

static const troupe_actor_type renewed_type = {
    .size = sizeof(troupe_actor_type),
    .name = "renewed",
    .state_bytes = sizeof(struct worker),
    .receive = receive_worker,
    .start = start_worker,
    .stop = stop_worker,
    .restart = restart_worker,
};

/* Address of the plan that is given to a child. */
static struct plan *given[64];
static size_t given_count;

static troupe_spawn_options
options_of(struct plan *plan)
{
    troupe_spawn_options options = plan->options;

    given[given_count % 64] = plan;
    options.size = sizeof options;
    options.name = plan->name;
    options.arg = &given[given_count++ % 64];
    options.arg_bytes = sizeof plan;
    return options;
}

static const troupe_actor_type *
type_of(const struct plan *plan)
{
    return plan->type != NULL ? plan->type : &worker_type;
}

static void
spawn_child(troupe_self *self, struct plan *plan)
{
    troupe_spawn_options options = options_of(plan);

    cr_assert_eq(
        troupe_spawn(self, type_of(plan), &options, &plan->ref), TROUPE_OK);
}

static void
spawn_top(struct plan *plan)
{
    troupe_spawn_options options = options_of(plan);

    cr_assert_eq(
        troupe_system_spawn(the_system, type_of(plan), &options, &plan->ref),
        TROUPE_OK);
    test_run(the_system);
}

static void
tell(const struct plan *plan, uint64_t number)
{
    cr_assert_eq(
        troupe_post(the_system, plan->ref, &test_number, &number), TROUPE_OK);
}

/* Tells it, and lets everything happen that needs no time to pass. */
static const char *
after(const struct plan *plan, uint64_t number)
{
    tell(plan, number);
    test_run(the_system);
    return written();
}

#define SUPERVISION(...)                                                       \
    {                                                                          \
        .size = sizeof(troupe_supervision), __VA_ARGS__                        \
    }

/* --- restart -------------------------------------------------------------- */

Test(supervision, a_failed_actor_goes_on_with_a_new_state)
{
    struct plan a = {.name = "a"};
    troupe_ref ref;

    spawn_top(&a);
    ref = a.ref;
    (void)written();
    tell(&a, 0);
    tell(&a, 0);
    tell(&a, 7);
    tell(&a, 0);
    cr_assert_str_eq(after(&a, 0), "a1 a2 a!7 a-7 a+ a1 a2 ");
    cr_assert_eq(troupe_lookup(the_system, "/user/a", &a.ref), TROUPE_OK);
    cr_assert(troupe_ref_equal(a.ref, ref));
    cr_assert_eq(test_counters(the_system).restarted, 1);
    cr_assert_eq(test_counters(the_system).started, 1);
    cr_assert_eq(test_counters(the_system).handled, 5);
    cr_assert_eq(test_letters.total, 0);
}

Test(supervision, the_restart_function_takes_the_place_of_stop)
{
    struct plan a = {.name = "a", .type = &renewed_type};

    spawn_top(&a);
    cr_assert_str_eq(after(&a, 3), "a+ a!3 a~3 a+ ");
}

static troupe_verdict
other_behaviour(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)state;
    (void)msg;
    note("other ");
    return troupe_fail(self, 1);
}

static troupe_verdict
change_behaviour(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)state;
    (void)msg;
    note("first ");
    cr_assert_eq(troupe_become_push(self, other_behaviour), TROUPE_OK);
    return TROUPE_CONTINUE;
}

Test(supervision, a_restart_goes_back_to_the_first_behaviour)
{
    static const troupe_actor_type type = {.size = sizeof(troupe_actor_type),
        .name = "changer",
        .receive = change_behaviour};
    troupe_ref ref;

    cr_assert_eq(troupe_system_spawn(the_system, &type, NULL, &ref), TROUPE_OK);
    test_post_numbers(the_system, ref, 4);
    test_run(the_system);
    cr_assert_str_eq(written(), "first other first other ");
}

static troupe_verdict
stash_or_fail(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)state;
    if (*troupe_payload(msg, uint64_t) == 2) {
        return TROUPE_FAILED;
    }
    cr_assert_eq(troupe_stash(self), TROUPE_OK);
    return TROUPE_CONTINUE;
}

Test(supervision, a_restart_makes_dead_letters_of_the_stash)
{
    static const troupe_actor_type type = {.size = sizeof(troupe_actor_type),
        .name = "stasher",
        .receive = stash_or_fail};
    troupe_ref ref;

    cr_assert_eq(troupe_system_spawn(the_system, &type, NULL, &ref), TROUPE_OK);
    test_post_numbers(the_system, ref, 3);
    test_run(the_system);
    cr_assert_eq(test_letters.by_reason[TROUPE_DEAD_STASH], 2);
    cr_assert_eq(test_letters.total, 2);
    cr_assert_eq(test_counters(the_system).restarted, 1);
}

Test(supervision, the_children_go_before_a_restart)
{
    struct plan c = {.name = "c"}, b = {.name = "b"};
    struct plan a = {.name = "a", .own_children = 2, .child = {&b, &c}};

    spawn_top(&a);
    (void)written();
    tell(&b, 0);
    test_run(the_system);
    (void)written();
    tell(&a, 5);
    test_run(the_system);
    {
        const char *what = written();

        cr_assert_eq(strncmp(what, "a!5 ", 4), 0, "%s", what);
        cr_assert_not_null(strstr(what, "b-0 "), "%s", what);
        cr_assert_not_null(strstr(what, "c-0 "), "%s", what);
        cr_assert(strstr(what, "c-0 ") < strstr(what, "a-5 a+ "), "%s", what);
        cr_assert(strstr(what, "b-0 ") < strstr(what, "a-5 a+ "), "%s", what);
    }
    cr_assert_eq(b.starts, 2);
    cr_assert_eq(test_counters(the_system).actors, 3);
}

Test(supervision, children_that_are_kept_go_on_after_a_restart)
{
    struct plan b = {.name = "b"};
    struct plan a = {
        .name = "a", .options = {.flags = TROUPE_ACTOR_KEEP_CHILDREN}};
    troupe_ref doer;

    spawn_top(&a);
    /* A child that start() does not make: it is there only once. */
    a.own_children = 1;
    a.child[0] = &b;
    cr_assert_str_eq(after(&a, 1), "a+ a!1 a-1 a+ b+ ");
    a.own_children = 0;
    doer = b.ref;
    (void)after(&b, 0);
    cr_assert_str_eq(after(&a, 2), "a!2 a-2 a+ ");
    cr_assert_str_eq(after(&b, 0), "b2 ");
    cr_assert(troupe_ref_equal(doer, b.ref));
}

static void
spawn_in_restart(troupe_self *self, void *state, const troupe_exit *why)
{
    troupe_ref ref = TROUPE_NONE;

    (void)state;
    (void)why;
    note(
        "%s ", troupe_status_name(troupe_spawn(self, &test_plain, NULL, &ref)));
    cr_assert(troupe_ref_is_none(ref));
}

Test(supervision, a_restart_function_may_not_spawn)
{
    static const troupe_actor_type type = {.size = sizeof(troupe_actor_type),
        .name = "spawner",
        .state_bytes = sizeof(struct worker),
        .receive = receive_worker,
        .start = start_worker,
        .restart = spawn_in_restart};
    struct plan a = {.name = "a", .type = &type};

    spawn_top(&a);
    cr_assert_str_eq(after(&a, 1), "a+ a!1 TROUPE_E_STATE a+ ");
}

/* --- the budget ----------------------------------------------------------- */

static troupe_port *port;

static void
watch(const struct plan *plan)
{
    cr_assert_eq(troupe_port_open(the_system, NULL, &port), TROUPE_OK);
    cr_assert_eq(troupe_port_watch(port, plan->ref), TROUPE_OK);
}

static void
expect_end(troupe_exit_kind kind, int32_t code)
{
    const troupe_msg *msg = troupe_port_next(port);

    cr_assert_not_null(msg);
    cr_assert_eq(troupe_down(msg)->kind, kind);
    cr_assert_eq(troupe_down(msg)->code, code);
    troupe_port_close(port);
}

Test(supervision, the_budget_is_literal)
{
    static const troupe_supervision three = SUPERVISION(.max_restarts = 3);
    struct plan a = {.name = "a", .options = {.own = &three}};

    spawn_top(&a);
    watch(&a);
    for (uint64_t i = 1; i <= 3; i++) {
        (void)after(&a, i);
        cr_assert_eq(a.starts, i + 1);
        cr_assert_null(troupe_port_next(port));
    }
    (void)after(&a, 4);
    cr_assert_eq(a.starts, 4);
    expect_end(TROUPE_EXIT_FAILED, 4);
}

Test(supervision, siblings_have_a_budget_each)
{
    static const troupe_supervision one = SUPERVISION(.max_restarts = 1);
    struct plan b = {.name = "b"}, c = {.name = "c"}, d = {.name = "d"};
    struct plan a = {.name = "a",
        .own_children = 3,
        .child = {&b, &c, &d},
        .options = {.children = &one}};

    spawn_top(&a);
    (void)after(&b, 1);
    (void)after(&c, 2);
    (void)after(&d, 3);
    cr_assert_eq(b.starts, 2);
    cr_assert_eq(c.starts, 2);
    cr_assert_eq(d.starts, 2);
    (void)after(&c, 4);
    cr_assert_eq(c.starts, 2);
    cr_assert_eq(test_counters(the_system).actors, 3);
}

Test(supervision, ten_restarts_a_minute_are_the_default)
{
    struct plan a = {.name = "a"};

    spawn_top(&a);
    watch(&a);
    for (uint64_t i = 1; i <= 11; i++) {
        cr_assert_null(troupe_port_next(port));
        (void)after(&a, i);
    }
    cr_assert_eq(a.starts, 11);
    expect_end(TROUPE_EXIT_FAILED, 11);
}

Test(supervision, a_window_forgets_what_lies_before_it)
{
    static const troupe_supervision two =
        SUPERVISION(.max_restarts = 2, .window_ns = TROUPE_S(10));
    struct plan a = {.name = "a", .options = {.own = &two}};

    spawn_top(&a);
    watch(&a);
    for (int i = 0; i < 20; i++) {
        (void)after(&a, 1);
        cr_assert_eq(troupe_system_advance(the_system, TROUPE_S(6)), TROUPE_OK);
    }
    cr_assert_eq(a.starts, 21);
    (void)after(&a, 1);
    (void)after(&a, 2);
    expect_end(TROUPE_EXIT_FAILED, 2);
}

Test(supervision, without_a_budget_the_first_failure_gives_up)
{
    static const troupe_supervision none =
        SUPERVISION(.max_restarts = TROUPE_RESTARTS_NONE);
    struct plan a = {.name = "a", .options = {.own = &none}};

    spawn_top(&a);
    watch(&a);
    cr_assert_str_eq(after(&a, 2), "a+ a!2 a-2 ");
    expect_end(TROUPE_EXIT_FAILED, 2);
}

Test(supervision, an_unlimited_budget_has_no_end)
{
    static const troupe_supervision much =
        SUPERVISION(.max_restarts = TROUPE_RESTARTS_UNLIMITED,
            .window_ns = TROUPE_FOREVER);
    struct plan a = {.name = "a", .options = {.own = &much}};
    uint64_t before;

    spawn_top(&a);
    for (int i = 0; i < 3000; i++) {
        (void)after(&a, 1);
    }
    before = test_memory.live_bytes;
    for (int i = 0; i < 3000; i++) {
        (void)after(&a, 1);
    }
    cr_assert_eq(a.starts, 6001);
    cr_assert_leq(test_memory.live_bytes, before, "what is told is bounded");
}

Test(supervision, a_used_up_budget_may_escalate)
{
    static const troupe_supervision one =
        SUPERVISION(.max_restarts = 1, .give_up = TROUPE_GIVE_UP_ESCALATE);
    struct plan b = {.name = "b"};
    struct plan a = {.name = "a",
        .own_children = 1,
        .child = {&b},
        .options = {.children = &one}};

    spawn_top(&a);
    (void)written();
    cr_assert_str_eq(after(&b, 1), "b!1 b-1 b+ ");
    cr_assert_str_eq(after(&b, 2), "b!2 b-2 a-2 a+ b+ ");
}

/* --- directives ----------------------------------------------------------- */

Test(supervision, a_resumed_actor_keeps_its_state)
{
    static const troupe_supervision resume =
        SUPERVISION(.otherwise = TROUPE_DIRECTIVE_RESUME);
    struct plan a = {.name = "a", .options = {.own = &resume}};

    spawn_top(&a);
    (void)after(&a, 0);
    cr_assert_str_eq(after(&a, 9), "a!9 ");
    cr_assert_str_eq(after(&a, 0), "a2 ");
    cr_assert_eq(test_counters(the_system).restarted, 0);
}

Test(supervision, a_stopped_one_ends_as_failed)
{
    static const troupe_supervision stop =
        SUPERVISION(.otherwise = TROUPE_DIRECTIVE_STOP);
    struct plan a = {.name = "a", .options = {.own = &stop}};

    spawn_top(&a);
    watch(&a);
    tell(&a, 8);
    tell(&a, 0);
    test_run(the_system);
    cr_assert_str_eq(written(), "a+ a!8 a-8 ");
    cr_assert_eq(test_letters.by_reason[TROUPE_DEAD_STOPPED], 1);
    expect_end(TROUPE_EXIT_FAILED, 8);
}

Test(supervision, the_first_rule_that_fits_decides)
{
    static const troupe_rule rules[] = {{1, 1, TROUPE_DIRECTIVE_RESUME},
        {1, 5, TROUPE_DIRECTIVE_RESTART}, {4, 9, TROUPE_DIRECTIVE_STOP}};
    static const troupe_supervision ruled = SUPERVISION(.rules = rules,
        .rule_count = 3, .otherwise = TROUPE_DIRECTIVE_RESUME);
    struct plan a = {.name = "a", .options = {.own = &ruled}};

    spawn_top(&a);
    (void)written();
    cr_assert_str_eq(after(&a, 1), "a!1 ");
    cr_assert_str_eq(after(&a, 5), "a!5 a-5 a+ ");
    cr_assert_str_eq(after(&a, 2), "a!2 a-2 a+ ");
    cr_assert_str_eq(after(&a, 10), "a!10 ");
    cr_assert_str_eq(after(&a, 9), "a!9 a-9 ");
}

static uint32_t told[64];
static uint32_t told_count;

static troupe_directive
decide(const troupe_exit *exit, uint32_t restarts, void *user)
{
    note("?%d ", (int)exit->code);
    told[told_count++ % 64] = restarts;
    return *(troupe_directive *)user;
}

Test(supervision, a_function_decides_after_the_rules)
{
    static const troupe_rule rules[] = {{1, 1, TROUPE_DIRECTIVE_RESUME}};
    troupe_directive says = TROUPE_DIRECTIVE_RESTART;
    const troupe_supervision asks = SUPERVISION(.rules = rules, .rule_count = 1,
        .decide = decide, .user = &says, .otherwise = TROUPE_DIRECTIVE_STOP);
    struct plan a = {.name = "a", .options = {.own = &asks}};

    told_count = 0;
    spawn_top(&a);
    (void)written();
    cr_assert_str_eq(after(&a, 1), "a!1 ");
    cr_assert_str_eq(after(&a, 2), "a!2 ?2 a-2 a+ ");
    cr_assert_str_eq(after(&a, 3), "a!3 ?3 a-3 a+ ");
    says = TROUPE_DIRECTIVE_RESUME;
    cr_assert_str_eq(after(&a, 4), "a!4 ?4 ");
    cr_assert_eq(told[0], 0);
    cr_assert_eq(told[1], 1);
    cr_assert_eq(told[2], 2);
}

static void
escalates(troupe_directive says)
{
    const troupe_supervision asks =
        SUPERVISION(.decide = decide, .user = &says);
    struct plan b = {.name = "b"};
    struct plan a = {.name = "a",
        .own_children = 1,
        .child = {&b},
        .options = {.children = &asks}};

    spawn_top(&a);
    (void)written();
    cr_assert_str_eq(after(&b, 6), "b!6 ?6 b-6 a-6 a+ b+ ");
}

Test(supervision, an_escalated_failure_is_the_parents_own)
{
    escalates(TROUPE_DIRECTIVE_ESCALATE);
}

Test(supervision, an_answer_that_is_none_escalates)
{
    escalates((troupe_directive)99);
}

enum { MANY = 100000 };

static troupe_directive
count_and_resume(const troupe_exit *exit, uint32_t restarts, void *user)
{
    (void)exit;
    (void)restarts;
    ++*(uint32_t *)user;
    return TROUPE_DIRECTIVE_RESUME;
}

static troupe_verdict
always_fail(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)self;
    (void)state;
    (void)msg;
    return TROUPE_FAILED;
}

static troupe_verdict
have_many(troupe_self *self, const troupe_msg *msg, void *user)
{
    static const troupe_actor_type type = {.size = sizeof(troupe_actor_type),
        .name = "failing",
        .receive = always_fail};
    const troupe_supervision asks =
        SUPERVISION(.decide = count_and_resume, .user = user);
    const troupe_spawn_options options = {.size = sizeof options, .own = &asks};
    troupe_ref ref;

    (void)msg;
    for (int i = 0; i < MANY; i++) {
        cr_assert_eq(troupe_spawn(self, &type, &options, &ref), TROUPE_OK);
        troupe_tell(self, ref, &test_empty, NULL);
    }
    return TROUPE_CONTINUE;
}

/* Others have their turn meanwhile, and a stop is seen. */
Test(supervision, many_failures_are_answered_in_several_turns)
{
    uint32_t answered = 0, before, most = 0;

    test_close(the_system);
    the_system = test_open_driven(0); /* a draw from so many takes its time */
    test_do_later(
        the_system, test_spawn_doer(the_system, "many"), have_many, &answered);
    for (int i = 0; i < 10 * MANY && answered < MANY; i++) {
        before = answered;
        cr_assert_eq(troupe_system_run(the_system, 1, NULL), TROUPE_OK);
        most = answered - before > most ? answered - before : most;
    }
    cr_assert_eq(answered, MANY);
    cr_assert_gt(most, 1);
    cr_assert_leq(most, 100);
}

/* Each has one child; the last one fails at what it gets. */
struct link {
    uint64_t below;
    uint32_t *starts;
    troupe_ref *last;
};

static const troupe_actor_type link_type;

static troupe_status
start_link(troupe_self *self, void *state, const void *arg)
{
    static const troupe_supervision up =
        SUPERVISION(.otherwise = TROUPE_DIRECTIVE_ESCALATE);
    troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);
    const struct link *link = arg;
    struct link next = *link;
    troupe_ref child;

    (void)state;
    ++*link->starts;
    if (link->below == 0) {
        *link->last = troupe_self_ref(self);
        return TROUPE_OK;
    }
    next.below--;
    options.arg = &next;
    options.arg_bytes = sizeof next;
    options.children = &up;
    return troupe_spawn(self, &link_type, &options, &child);
}

static const troupe_actor_type link_type = {.size = sizeof(troupe_actor_type),
    .name = "link",
    .receive = always_fail,
    .start = start_link};

Test(supervision, a_failure_goes_up_through_a_deep_tree)
{
    enum { DEEP = 5000 };
    static const troupe_supervision up =
        SUPERVISION(.otherwise = TROUPE_DIRECTIVE_ESCALATE);
    static const troupe_supervision once = SUPERVISION(.max_restarts = 1);
    uint32_t starts = 0;
    troupe_ref last = TROUPE_NONE, ref;
    const struct link first = {DEEP - 1, &starts, &last};
    const troupe_spawn_options options = {.size = sizeof options,
        .arg = &first,
        .arg_bytes = sizeof first,
        .children = &up,
        .own = &once};

    cr_assert_eq(
        troupe_system_spawn(the_system, &link_type, &options, &ref), TROUPE_OK);
    test_run(the_system);
    for (uint32_t i = 2; i <= 3; i++) {
        cr_assert_eq(
            troupe_post(the_system, last, &test_empty, NULL), TROUPE_OK);
        test_run(the_system);
        cr_assert_eq(starts, i < 3 ? i * DEEP : 2 * DEEP);
        cr_assert_eq(test_counters(the_system).actors, i < 3 ? DEEP : 0);
    }
    cr_assert_eq(test_counters(the_system).restarted, 1);
}

Test(supervision, if_the_parent_is_resumed_so_is_the_child)
{
    static const troupe_supervision up =
        SUPERVISION(.otherwise = TROUPE_DIRECTIVE_ESCALATE);
    static const troupe_supervision resume =
        SUPERVISION(.otherwise = TROUPE_DIRECTIVE_RESUME);
    struct plan c = {.name = "c"};
    struct plan b = {.name = "b"};
    struct plan a = {.name = "a",
        .own_children = 2,
        .child = {&b, &c},
        .options = {.children = &up, .own = &resume}};

    spawn_top(&a);
    (void)after(&b, 0);
    cr_assert_str_eq(after(&b, 6), "b!6 ");
    cr_assert_str_eq(after(&b, 0), "b2 ");
    cr_assert_str_eq(after(&c, 0), "c1 ");
    cr_assert_str_eq(after(&a, 0), "a1 ");
}

Test(supervision, a_child_may_have_a_rule_of_its_own)
{
    static const troupe_supervision stop =
        SUPERVISION(.otherwise = TROUPE_DIRECTIVE_STOP);
    static const troupe_supervision resume =
        SUPERVISION(.otherwise = TROUPE_DIRECTIVE_RESUME);
    struct plan b = {.name = "b", .options = {.own = &resume}};
    struct plan c = {.name = "c"};
    struct plan a = {.name = "a",
        .own_children = 2,
        .child = {&b, &c},
        .options = {.children = &stop}};

    spawn_top(&a);
    (void)written();
    cr_assert_str_eq(after(&b, 1), "b!1 ");
    cr_assert_str_eq(after(&c, 1), "c!1 c-1 ");
    cr_assert_str_eq(after(&b, 0), "b1 ");
}

/* --- all for one ---------------------------------------------------------- */

struct looking {
    troupe_ref actor;
    troupe_actor_state state;
};

static bool
look(const troupe_actor_info *info, void *user)
{
    struct looking *looking = user;

    if (troupe_ref_equal(info->actor, looking->actor)) {
        looking->state = info->state;
    }
    return true;
}

static troupe_actor_state
state_of(troupe_ref actor)
{
    struct looking looking = {actor, (troupe_actor_state)-1};

    cr_assert_eq(troupe_inspect(the_system, NULL, look, &looking), TROUPE_OK);
    return looking.state;
}

static void
close_for_another(void)
{
    is_over = true;
    test_close(the_system);
    is_over = false;
}

/* In some order of turns both have failed before their parent looks. */
static void
fail_at_once(struct plan *parent, struct plan *one, uint64_t code,
    struct plan *other, uint64_t other_code)
{
    for (uint64_t seed = 1;; seed++) {
        close_for_another();
        one->starts = other->starts = 0;
        the_system = test_open_driven(seed);
        spawn_top(parent);
        tell(one, code);
        tell(other, other_code);
        cr_assert_eq(troupe_system_run(the_system, 2, NULL), TROUPE_OK);
        if (state_of(one->ref) == TROUPE_STATE_SUSPENDED &&
            state_of(other->ref) == TROUPE_STATE_SUSPENDED) {
            return;
        }
    }
}

static const troupe_backoff doubling = {.size = sizeof(troupe_backoff),
    .min_ns = TROUPE_MS(10),
    .max_ns = TROUPE_MS(1000),
    .jitter = TROUPE_JITTER_NONE};
static const troupe_supervision pausing =
    SUPERVISION(.backoff = &doubling, .max_restarts = 5);

static void
advance(uint64_t ns)
{
    cr_assert_eq(troupe_system_advance(the_system, ns), TROUPE_OK);
}

Test(supervision, all_for_one_restarts_the_siblings_too)
{
    static const troupe_supervision all =
        SUPERVISION(.scope = TROUPE_SCOPE_ALL_FOR_ONE, .max_restarts = 2);
    struct plan b = {.name = "b"}, c = {.name = "c"};
    struct plan a = {.name = "a",
        .own_children = 2,
        .child = {&b, &c},
        .options = {.children = &all}};
    const char *what;

    spawn_top(&a);
    (void)after(&c, 0);
    what = after(&b, 4);
    cr_assert_not_null(strstr(what, "b-4 b+ "), "%s", what);
    cr_assert_not_null(strstr(what, "c-4 c+ "), "%s", what);
    cr_assert_str_eq(after(&c, 0), "c1 ");
    /* One budget for both. */
    (void)after(&c, 5);
    what = after(&b, 6);
    cr_assert_null(strstr(what, "+"), "%s", what);
    cr_assert_eq(test_counters(the_system).actors, 1);
}

Test(supervision, all_for_one_stops_the_siblings_too)
{
    static const troupe_supervision all =
        SUPERVISION(.scope = TROUPE_SCOPE_ALL_FOR_ONE,
            .otherwise = TROUPE_DIRECTIVE_STOP);
    struct plan b = {.name = "b"}, c = {.name = "c"};
    struct plan a = {.name = "a",
        .own_children = 2,
        .child = {&b, &c},
        .options = {.children = &all}};
    const char *what;

    spawn_top(&a);
    watch(&c);
    what = after(&b, 4);
    cr_assert_not_null(strstr(what, "b-4 "), "%s", what);
    cr_assert_not_null(strstr(what, "c-0 "), "%s", what);
    expect_end(TROUPE_EXIT_STOPPED, 0);
}

/* Both fail before their parent looks: what is done about one is for all. */
Test(supervision, two_failures_at_once_are_answered_together)
{
    static const troupe_supervision all =
        SUPERVISION(.scope = TROUPE_SCOPE_ALL_FOR_ONE, .max_restarts = 1);
    struct plan b = {.name = "b"}, c = {.name = "c"};
    struct plan a = {.name = "a",
        .own_children = 2,
        .child = {&b, &c},
        .options = {.children = &all}};

    fail_at_once(&a, &b, 4, &c, 5);
    test_run(the_system);
    cr_assert_eq(b.starts, 2);
    cr_assert_eq(c.starts, 2);
    (void)written();
    cr_assert_str_eq(after(&b, 0), "b1 ");
    cr_assert_str_eq(after(&c, 0), "c1 ");
}

/* c has not failed itself: what is below it is held even so. */
Test(supervision, what_is_below_a_pausing_sibling_waits)
{
    static const troupe_supervision all =
        SUPERVISION(.scope = TROUPE_SCOPE_ALL_FOR_ONE, .backoff = &doubling);
    struct plan d = {.name = "d"};
    struct plan b = {.name = "b"},
                c = {.name = "c",
                    .own_children = 1,
                    .child = {&d},
                    .options = {.flags = TROUPE_ACTOR_KEEP_CHILDREN}};
    struct plan a = {.name = "a",
        .own_children = 2,
        .child = {&b, &c},
        .options = {.children = &all}};

    spawn_top(&a);
    c.own_children = 0;
    (void)after(&b, 4);
    cr_assert_eq(state_of(d.ref), TROUPE_STATE_SUSPENDED);
    cr_assert_str_eq(after(&d, 0), "");
    advance(TROUPE_S(1));
    cr_assert_not_null(strstr(written(), "d1 "));
}

/* --- start ---------------------------------------------------------------- */

Test(supervision, one_that_does_not_start_is_started_again)
{
    struct plan a = {.name = "a", .bad_starts = 3};

    spawn_top(&a);
    cr_assert_str_eq(after(&a, 0), "a+ a+ a+ a+ a1 ");
    cr_assert_eq(test_counters(the_system).restarted, 3);
}

Test(supervision, failed_starts_use_up_the_budget)
{
    static const troupe_supervision two = SUPERVISION(.max_restarts = 2);
    struct plan a = {.name = "a", .bad_starts = 1000, .options = {.own = &two}};
    troupe_spawn_options options = options_of(&a);

    cr_assert_eq(
        troupe_system_spawn(the_system, &worker_type, &options, &a.ref),
        TROUPE_OK);
    watch(&a);
    test_run(the_system);
    cr_assert_str_eq(written(), "a+ a+ a+ ");
    expect_end(TROUPE_EXIT_START_FAILED, 90);
}

/* It has no state that it could go on with when its parent is resumed. */
Test(supervision, one_that_did_not_start_ends_if_its_parent_is_resumed)
{
    static const troupe_supervision up =
        SUPERVISION(.otherwise = TROUPE_DIRECTIVE_ESCALATE);
    static const troupe_supervision resume =
        SUPERVISION(.otherwise = TROUPE_DIRECTIVE_RESUME);
    struct plan b = {.name = "b", .bad_starts = 1};
    struct plan a = {.name = "a",
        .own_children = 1,
        .child = {&b},
        .options = {.children = &up, .own = &resume}};
    troupe_spawn_options options = options_of(&a);

    cr_assert_eq(
        troupe_system_spawn(the_system, &worker_type, &options, &a.ref),
        TROUPE_OK);
    cr_assert_eq(troupe_system_run(the_system, 1, NULL), TROUPE_OK);
    watch(&b);
    test_run(the_system);
    cr_assert_str_eq(written(), "a+ b+ ");
    expect_end(TROUPE_EXIT_START_FAILED, 90);
    cr_assert_str_eq(after(&a, 0), "a1 ");
}

Test(supervision, one_that_did_not_start_cannot_be_resumed)
{
    static const troupe_supervision resume =
        SUPERVISION(.otherwise = TROUPE_DIRECTIVE_RESUME);
    struct plan a = {.name = "a", .bad_starts = 1, .options = {.own = &resume}};

    spawn_top(&a);
    cr_assert_str_eq(after(&a, 0), "a+ a+ a1 ");
}

/* --- pauses, and what waits meanwhile ------------------------------------- */

Test(supervision, restarts_may_be_apart)
{
    struct plan a = {.name = "a", .options = {.own = &pausing}};

    spawn_top(&a);
    (void)written();
    for (uint32_t i = 0; i < 5; i++) {
        uint64_t pause_ns = TROUPE_MS(10) << i;

        cr_assert_str_eq(after(&a, 1), "a!1 ");
        cr_assert_str_eq(after(&a, 0), "");
        advance(pause_ns - TROUPE_MS(2));
        cr_assert_str_eq(written(), "");
        advance(TROUPE_MS(2) + TROUPE_MS(1));
        cr_assert_str_eq(written(), "a-1 a+ a1 ");
    }
    cr_assert_str_eq(after(&a, 2), "a!2 a-2 ");
}

Test(supervision, what_is_below_a_failed_actor_waits_with_it)
{
    struct plan c = {.name = "c"};
    struct plan b = {.name = "b", .own_children = 1, .child = {&c}};
    struct plan a = {.name = "a",
        .options = {.own = &pausing, .flags = TROUPE_ACTOR_KEEP_CHILDREN}};

    spawn_top(&a);
    a.own_children = 1;
    a.child[0] = &b;
    (void)after(&a, 1);
    advance(TROUPE_S(1));
    a.own_children = 0;
    (void)written();
    cr_assert_str_eq(after(&c, 0), "c1 ");
    cr_assert_str_eq(after(&a, 2), "a!2 ");
    cr_assert_eq(state_of(a.ref), TROUPE_STATE_SUSPENDED);
    cr_assert_eq(state_of(c.ref), TROUPE_STATE_SUSPENDED);
    cr_assert_str_eq(after(&b, 0), "");
    cr_assert_str_eq(after(&c, 0), "");
    cr_assert_eq(troupe_depth(the_system, c.ref), 1);
    advance(TROUPE_S(1));
    {
        const char *what = written();

        cr_assert_eq(strncmp(what, "a-2 a+ ", 7), 0, "%s", what);
        cr_assert_not_null(strstr(what, "b1 "), "%s", what);
        cr_assert_not_null(strstr(what, "c2 "), "%s", what);
    }
    cr_assert_eq(state_of(c.ref), TROUPE_STATE_RUNNING);
}

static void
is_bounded_meanwhile(troupe_overflow overflow, troupe_status status,
    uint64_t dropped, const char *survivors)
{
    troupe_mailbox_options mailbox = TROUPE_INIT(troupe_mailbox_options);
    struct plan a = {
        .name = "a", .options = {.own = &pausing, .mailbox = &mailbox}};
    uint64_t number = 100;

    mailbox.capacity = 2;
    mailbox.overflow = overflow;
    spawn_top(&a);
    (void)written();
    cr_assert_str_eq(after(&a, 1), "a!1 ");
    for (int i = 0; i < 5; i++) {
        troupe_status given_back =
            troupe_post(the_system, a.ref, &test_number, &number);

        cr_assert_eq(given_back, i < 2 ? TROUPE_OK : status);
        cr_assert_leq(troupe_depth(the_system, a.ref), 2);
    }
    advance(TROUPE_S(1));
    cr_assert_str_eq(written(), survivors);
    cr_assert_eq(test_counters(the_system).dropped, dropped);
}

Test(supervision, a_suspended_mailbox_rejects_what_is_too_much)
{
    is_bounded_meanwhile(
        TROUPE_OVERFLOW_REJECT, TROUPE_E_FULL, 0, "a-1 a+ a1 a2 ");
}

Test(supervision, a_suspended_mailbox_drops_the_arrival)
{
    is_bounded_meanwhile(
        TROUPE_OVERFLOW_DROP_NEW, TROUPE_OK, 3, "a-1 a+ a1 a2 ");
}

Test(supervision, a_suspended_mailbox_drops_the_oldest)
{
    is_bounded_meanwhile(
        TROUPE_OVERFLOW_DROP_HEAD, TROUPE_OK, 3, "a-1 a+ a1 a2 ");
}

/* --- stopping is final ---------------------------------------------------- */

static troupe_verdict
stop_and_fail(troupe_self *self, const troupe_msg *msg, void *user)
{
    (void)msg;
    (void)user;
    cr_assert_eq(troupe_stop_now(self, troupe_self_ref(self)), TROUPE_OK);
    return troupe_fail(self, 12);
}

Test(supervision, one_that_stops_itself_and_fails_is_gone)
{
    troupe_ref doer = test_spawn_doer(the_system, "doer");
    struct plan subject = {.ref = doer};

    watch(&subject);
    test_do(the_system, doer, stop_and_fail, NULL);
    expect_end(TROUPE_EXIT_FAILED, 12);
    cr_assert_eq(test_counters(the_system).actors, 0);
}

/* Deep enough for others to have their turns while it goes. */
#define DEPTH 16

/* Below `top`, one under the other: they go before it, from the last one on. */
static void
hang_chain(struct plan *top, struct plan *chain)
{
    for (size_t i = 0; i < DEPTH; i++) {
        struct plan *above = i == 0 ? top : &chain[i - 1];

        chain[i].name = "c";
        above->own_children = 1;
        above->child[0] = &chain[i];
    }
}

static troupe_verdict
stop_and_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    cr_assert_eq(troupe_stop_now(self, troupe_self_ref(self)), TROUPE_OK);
    return receive_worker(self, state, msg);
}

/* Its parent's answer, a restart, comes while its children are going. */
Test(supervision, one_that_stops_itself_and_fails_does_not_come_back)
{
    static const troupe_actor_type type = {.size = sizeof(troupe_actor_type),
        .name = "quitter",
        .state_bytes = sizeof(struct worker),
        .receive = stop_and_receive,
        .start = start_worker,
        .stop = stop_worker};
    struct plan chain[DEPTH] = {{.name = "c"}};
    struct plan a = {.name = "a",
        .type = &type,
        .options = {.flags = TROUPE_ACTOR_KEEP_CHILDREN}};

    hang_chain(&a, chain);
    spawn_top(&a);
    watch(&a);
    (void)after(&a, 12);
    cr_assert_eq(a.starts, 1);
    expect_end(TROUPE_EXIT_FAILED, 12);
    cr_assert_eq(test_counters(the_system).restarted, 0);
    cr_assert_eq(test_counters(the_system).actors, 0);
}

Test(supervision, a_restart_for_all_leaves_one_that_is_stopping_alone)
{
    static const troupe_supervision all =
        SUPERVISION(.scope = TROUPE_SCOPE_ALL_FOR_ONE);
    struct plan chain[DEPTH] = {{.name = "c"}};
    struct plan a = {
        .name = "a", .options = {.flags = TROUPE_ACTOR_KEEP_CHILDREN}};
    struct plan b = {.name = "b"};
    struct plan top = {.name = "top",
        .own_children = 2,
        .child = {&a, &b},
        .options = {.children = &all}};

    hang_chain(&a, chain);
    spawn_top(&top);
    watch(&a);
    cr_assert_eq(troupe_post_stop_now(the_system, a.ref), TROUPE_OK);
    (void)after(&b, 5);
    cr_assert_eq(b.starts, 2);
    cr_assert_eq(a.starts, 1);
    expect_end(TROUPE_EXIT_STOPPED, 0);
    cr_assert_eq(test_counters(the_system).restarted, 1);
    cr_assert_eq(test_counters(the_system).actors, 2);
}

Test(supervision, a_stop_wins_over_a_restart_that_waits)
{
    struct plan a = {.name = "a", .options = {.own = &pausing}};

    spawn_top(&a);
    watch(&a);
    (void)after(&a, 4);
    cr_assert_eq(troupe_post_stop_now(the_system, a.ref), TROUPE_OK);
    test_run(the_system);
    cr_assert_str_eq(written(), "a-4 ");
    expect_end(TROUPE_EXIT_FAILED, 4);
    advance(TROUPE_S(2));
    cr_assert_str_eq(written(), "");
}

Test(supervision, a_system_does_not_wait_for_pauses)
{
    static const troupe_backoff long_pause = {.size = sizeof(troupe_backoff),
        .min_ns = TROUPE_S(3600),
        .max_ns = TROUPE_S(3600),
        .jitter = TROUPE_JITTER_NONE};
    static const troupe_supervision long_pausing =
        SUPERVISION(.backoff = &long_pause);
    struct plan a = {.name = "a", .options = {.own = &long_pausing}};

    spawn_top(&a);
    cr_assert_str_eq(after(&a, 4), "a+ a!4 ");
    /* teardown() stops it: its clock would show an hour that had to pass. */
}

/* Nor for one that a sibling's failure makes begin after the stop. */
Test(supervision, a_system_does_not_wait_for_pauses_to_come)
{
    static const troupe_backoff long_pause = {.size = sizeof(troupe_backoff),
        .min_ns = TROUPE_S(3600),
        .max_ns = TROUPE_S(3600),
        .jitter = TROUPE_JITTER_NONE};
    troupe_directive says = TROUPE_DIRECTIVE_RESTART;
    const troupe_supervision all = SUPERVISION(.backoff = &long_pause,
        .scope = TROUPE_SCOPE_ALL_FOR_ONE, .decide = decide, .user = &says);
    uint32_t late = 0;

    for (uint64_t seed = 1; seed <= 50; seed++) {
        struct plan a = {.name = "a", .options = {.own = &all}};
        struct plan b = {.name = "b", .options = {.own = &all}};
        troupe_status status = TROUPE_OK;

        close_for_another();
        the_system = test_open_driven(seed);
        spawn_top(&a);
        spawn_top(&b);
        tell(&a, 1);
        told_count = 0;
        while (told_count == 0) {
            cr_assert_eq(troupe_system_run(the_system, 1, NULL), TROUPE_OK);
        }
        late += state_of(b.ref) != TROUPE_STATE_SUSPENDED ? 1 : 0;
        troupe_system_request_stop(the_system);
        for (int i = 0; i < 10; i++) {
            status = troupe_system_run(the_system, 0, NULL);
        }
        cr_assert_eq(status, TROUPE_E_CLOSED);
        journal[0] = '\0';
    }
    cr_assert_gt(late, 0);
}

Test(supervision, a_failure_at_the_root_ends_the_system)
{
    static const troupe_supervision up =
        SUPERVISION(.otherwise = TROUPE_DIRECTIVE_ESCALATE);
    struct plan b = {.name = "b"};
    struct plan a = {.name = "a", .options = {.own = &up}};

    spawn_top(&a);
    spawn_top(&b);
    (void)written();
    tell(&a, 3);
    for (int i = 0; i < 100; i++) {
        if (troupe_system_run(the_system, 0, NULL) == TROUPE_E_CLOSED) {
            break;
        }
    }
    cr_assert_eq(troupe_system_run(the_system, 0, NULL), TROUPE_E_CLOSED);
    cr_assert_not_null(strstr(journal, "a-3 "), "%s", journal);
    cr_assert_not_null(strstr(journal, "b-0 "), "%s", journal);
}

/* --- events, options ------------------------------------------ */

/* Its own restarts, and those of who fails below it. */
struct heard {
    uint32_t count;
    troupe_actor_event last;
};
static struct heard heard;

static troupe_status
start_listener(troupe_self *self, void *state, const void *arg)
{
    (void)state;
    (void)arg;
    return troupe_subscribe(self, TROUPE_TAG_ACTOR_RESTARTED, NULL, NULL);
}

static troupe_verdict
listen_to(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)self;
    (void)state;
    heard.count++;
    heard.last = *troupe_payload(msg, troupe_actor_event);
    return TROUPE_CONTINUE;
}

Test(supervision, a_restart_is_an_event)
{
    static const troupe_actor_type type = {.size = sizeof(troupe_actor_type),
        .name = "listener",
        .receive = listen_to,
        .start = start_listener};
    struct plan b = {.name = "b"};
    struct plan a = {.name = "a", .own_children = 1, .child = {&b}};
    troupe_ref listener;

    memset(&heard, 0, sizeof heard);
    cr_assert_eq(
        troupe_system_spawn(the_system, &type, NULL, &listener), TROUPE_OK);
    spawn_top(&a);
    (void)after(&b, 6);
    cr_assert_eq(heard.count, 1);
    cr_assert(troupe_ref_equal(heard.last.exit.actor, b.ref));
    cr_assert_eq(heard.last.exit.kind, TROUPE_EXIT_FAILED);
    cr_assert_eq(heard.last.exit.code, 6);
    cr_assert(troupe_ref_equal(heard.last.parent, a.ref));
    cr_assert_str_eq(heard.last.type, "worker");
}

Test(supervision, bad_options_are_refused_by_name)
{
    static const troupe_rule crossed[] = {{5, 1, TROUPE_DIRECTIVE_STOP}};
    static const troupe_rule unknown[] = {{1, 5, (troupe_directive)4}};
    static const troupe_backoff bad = {
        .size = sizeof(troupe_backoff), .min_ns = 2, .max_ns = 1};
    const struct {
        troupe_supervision given;
        const char *option;
    } cases[] = {
        {SUPERVISION(.scope = (troupe_scope)2), "supervision.scope"},
        {SUPERVISION(.otherwise = (troupe_directive)4),
            "supervision.otherwise"},
        {SUPERVISION(.give_up = (troupe_give_up)2), "supervision.give_up"},
        {SUPERVISION(.rules = crossed), "supervision.rules"},
        {SUPERVISION(.rule_count = 1), "supervision.rules"},
        {SUPERVISION(.rules = crossed, .rule_count = 1), "supervision.rules"},
        {SUPERVISION(.rules = unknown, .rule_count = 1), "supervision.rules"},
        {SUPERVISION(.rules = unknown, .rule_count = SIZE_MAX / 8),
            "supervision.rule_count"},
        {SUPERVISION(.backoff = &bad), "backoff.min_ns"},
        {{.size = 0}, "troupe_supervision.size"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int own = 0; own < 2; own++) {
            troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);
            troupe_ref ref = TROUPE_NONE;

            if (own != 0) {
                options.own = &cases[i].given;
            } else {
                options.children = &cases[i].given;
            }
            cr_assert_neq(
                troupe_system_spawn(the_system, &test_plain, &options, &ref),
                TROUPE_OK, "case %zu", i);
            cr_assert(troupe_ref_is_none(ref));
            if (cases[i].given.size != 0) {
                cr_assert_str_eq(troupe_last_error().option, cases[i].option);
            }
        }
    }
}

Test(supervision, unknown_flags_of_an_actor_are_refused)
{
    troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);
    troupe_ref ref;

    options.flags = 1u << 2;
    cr_assert_eq(troupe_system_spawn(the_system, &test_plain, &options, &ref),
        TROUPE_E_INVALID);
    cr_assert_str_eq(troupe_last_error().option, "flags");
    options.flags = 0;
    options.reserved = 1;
    cr_assert_eq(troupe_system_spawn(the_system, &test_plain, &options, &ref),
        TROUPE_E_INVALID);
    cr_assert_str_eq(troupe_last_error().option, "reserved");
}

Test(supervision, what_was_given_may_go_after_the_spawn)
{
    troupe_rule rules[] = {{1, 9, TROUPE_DIRECTIVE_RESUME}};
    troupe_supervision given_away = SUPERVISION(.rules = rules, .rule_count = 1,
        .otherwise = TROUPE_DIRECTIVE_STOP);
    struct plan a = {.name = "a", .options = {.own = &given_away}};

    spawn_top(&a);
    memset(rules, 0xff, sizeof rules);
    memset(&given_away, 0xff, sizeof given_away);
    (void)written();
    cr_assert_str_eq(after(&a, 9), "a!9 ");
    cr_assert_str_eq(after(&a, 10), "a!10 a-10 ");
}
