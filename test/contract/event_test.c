/* SPDX-License-Identifier: MIT */
#include "support/system.h"

#include <troupe/testkit.h>

#include <criterion/criterion.h>

#include <string.h>

/* The event stream: who subscribes to a tag gets what is published under it. */

static troupe_system *the_system;

static void
setup(void)
{
    the_system = test_open_driven(0);
}

static void
teardown(void)
{
    test_close(the_system);
}

TestSuite(event, .init = setup, .fini = teardown);

/* --- a listener ----------------------------------------------------------- */

#define HEARD 256

/* What a listener was sent, in order. */
struct heard {
    uint32_t count;
    troupe_verdict answer;
    bool take; /* keeps each message in `taken` */
    troupe_msg *taken[8];
    struct {
        troupe_tag tag;
        troupe_ref sender;
        uint64_t number; /* the first 8 bytes of the payload */
        troupe_actor_event life;
        troupe_dead_letter letter; /* msg: do not look */
        troupe_tag letter_tag;
        troupe_ref letter_sender;
        uint64_t letter_number;
        bool has_letter_payload;
    } event[HEARD];
};

struct order {
    troupe_verdict (*what)(troupe_self *self, void *user);
    void *user;
};
TROUPE_MSG_TYPE(order_type, struct order, 1000);

static void
note_letter(struct heard *heard, const troupe_msg *msg)
{
    const troupe_dead_letter *letter = troupe_payload(msg, troupe_dead_letter);

    heard->event[heard->count].letter = *letter;
    heard->event[heard->count].letter_tag = troupe_msg_tag(letter->msg);
    heard->event[heard->count].letter_sender = letter->msg->sender;
    heard->event[heard->count].has_letter_payload =
        letter->msg->payload != NULL;
    if (letter->msg->payload != NULL && letter->msg->bytes >= 8) {
        memcpy(
            &heard->event[heard->count].letter_number, letter->msg->payload, 8);
    }
}

static troupe_verdict
listen_to(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct heard *heard;

    if (troupe_msg_is(msg, &order_type)) {
        const struct order *order = troupe_payload(msg, struct order);

        return order->what(self, order->user);
    }
    memcpy(&heard, state, sizeof heard);
    cr_assert_lt(heard->count, HEARD);
    heard->event[heard->count].tag = troupe_msg_tag(msg);
    heard->event[heard->count].sender = msg->sender;
    switch (troupe_msg_tag(msg)) {
    case TROUPE_TAG_ACTOR_STARTED:
    case TROUPE_TAG_ACTOR_STOPPED:
        heard->event[heard->count].life =
            *troupe_payload(msg, troupe_actor_event);
        break;
    case TROUPE_TAG_DEAD_LETTER:
        note_letter(heard, msg);
        break;
    default:
        if (msg->bytes >= 8) {
            memcpy(&heard->event[heard->count].number, msg->payload, 8);
        }
        break;
    }
    if (heard->take) {
        cr_assert_eq(troupe_take(self, &heard->taken[heard->count]), TROUPE_OK);
    }
    heard->count++;
    return heard->answer;
}

static troupe_status
start_listener(troupe_self *self, void *state, const void *arg)
{
    (void)self;
    memcpy(state, arg, sizeof(struct heard *));
    return TROUPE_OK;
}

static const troupe_actor_type listener_type = {
    .size = sizeof(troupe_actor_type),
    .name = "listener",
    .state_bytes = sizeof(struct heard *),
    .receive = listen_to,
    .start = start_listener};

static troupe_ref
spawn_listener(const char *name, struct heard *heard)
{
    troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);
    troupe_ref ref = TROUPE_NONE;

    options.name = name;
    options.arg = &heard;
    options.arg_bytes = sizeof heard;
    test_require(troupe_system_spawn(
                     the_system, &listener_type, &options, &ref) == TROUPE_OK);
    test_run(the_system);
    return ref;
}

/* Calls `what` inside the listener. */
static void
in(troupe_ref listener, troupe_verdict (*what)(troupe_self *self, void *user),
    void *user)
{
    struct order order = {what, user};

    test_require(
        troupe_post(the_system, listener, &order_type, &order) == TROUPE_OK);
    test_run(the_system);
}

static troupe_tag wanted_tag = TEST_TAG_NUMBER;
static troupe_event_filter_fn wanted_filter;
static troupe_status said;

static troupe_verdict
subscribe(troupe_self *self, void *user)
{
    said = troupe_subscribe(self, wanted_tag, wanted_filter, user);
    return TROUPE_CONTINUE;
}

static troupe_verdict
unsubscribe(troupe_self *self, void *user)
{
    (void)user;
    said = troupe_unsubscribe(self, wanted_tag);
    return TROUPE_CONTINUE;
}

static troupe_verdict
be_done(troupe_self *self, void *user)
{
    (void)self;
    (void)user;
    return TROUPE_DONE;
}

static troupe_ref
spawn_subscriber(troupe_tag tag, struct heard *heard)
{
    troupe_ref ref = spawn_listener(NULL, heard);

    wanted_tag = tag;
    wanted_filter = NULL;
    in(ref, subscribe, NULL);
    cr_assert_eq(said, TROUPE_OK);
    return ref;
}

static size_t
publish_number(uint64_t number)
{
    size_t accepted = troupe_post_publish(the_system, &test_number, &number);

    test_run(the_system);
    return accepted;
}

/* --- subscriptions -------------------------------------------------------- */

static struct heard heard;
static struct heard other;

static troupe_verdict
publish_inside(troupe_self *self, void *user)
{
    uint64_t number = 7;

    *(size_t *)user = troupe_publish(self, &test_number, &number);
    return TROUPE_CONTINUE;
}

Test(event, a_subscriber_gets_what_is_published_under_its_tag)
{
    troupe_ref publisher = spawn_listener(NULL, &other);
    size_t accepted = 0;

    (void)spawn_subscriber(TEST_TAG_NUMBER, &heard);
    in(publisher, publish_inside, &accepted);
    cr_assert_eq(accepted, 1);
    cr_assert_eq(publish_number(8), 1);
    cr_assert_eq(troupe_post_publish(the_system, &test_empty, NULL), 0);
    test_run(the_system);
    cr_assert_eq(heard.count, 2);
    cr_assert_eq(heard.event[0].tag, TEST_TAG_NUMBER);
    cr_assert_eq(heard.event[0].number, 7);
    cr_assert(troupe_ref_equal(heard.event[0].sender, publisher));
    cr_assert_eq(heard.event[1].number, 8);
    cr_assert(troupe_ref_is_none(heard.event[1].sender));
    cr_assert_eq(other.count, 0);
}

Test(event, a_publisher_that_subscribed_gets_its_own)
{
    troupe_ref both = spawn_subscriber(TEST_TAG_NUMBER, &heard);
    size_t accepted = 0;

    in(both, publish_inside, &accepted);
    cr_assert_eq(accepted, 1);
    cr_assert_eq(heard.count, 1);
}

Test(event, all_subscribers_get_it)
{
    static struct heard many[100];

    for (int i = 0; i < 100; i++) {
        (void)spawn_subscriber(TEST_TAG_NUMBER, &many[i]);
    }
    cr_assert_eq(publish_number(3), 100);
    for (int i = 0; i < 100; i++) {
        cr_assert_eq(many[i].count, 1);
        cr_assert_eq(many[i].event[0].number, 3);
    }
}

Test(event, twice_without_a_filter_is_once)
{
    troupe_ref ref = spawn_subscriber(TEST_TAG_NUMBER, &heard);

    in(ref, subscribe, NULL);
    cr_assert_eq(said, TROUPE_OK);
    cr_assert_eq(publish_number(1), 1);
    cr_assert_eq(heard.count, 1);
}

static bool
is_multiple(const troupe_msg *msg, void *user)
{
    cr_assert_eq(troupe_msg_tag(msg), TEST_TAG_NUMBER);
    return *troupe_payload(msg, uint64_t) % *(uint64_t *)user == 0;
}

Test(event, a_filter_says_which_and_filters_add_up)
{
    static uint64_t two = 2, three = 3;
    troupe_ref ref = spawn_listener(NULL, &heard);

    wanted_filter = is_multiple;
    in(ref, subscribe, &two);
    in(ref, subscribe, &three);
    in(ref, subscribe, &two); /* the same twice is once */
    cr_assert_eq(said, TROUPE_OK);
    cr_assert_eq(publish_number(1), 0);
    cr_assert_eq(publish_number(2), 1);
    cr_assert_eq(publish_number(3), 1);
    cr_assert_eq(publish_number(6), 2);
    cr_assert_eq(heard.count, 4);
    cr_assert_eq(heard.event[0].number, 2);
    cr_assert_eq(heard.event[1].number, 3);
}

Test(event, unsubscribe_ends_all_of_one_tag)
{
    static uint64_t two = 2;
    troupe_ref ref = spawn_subscriber(TEST_TAG_OTHER, &heard);
    uint64_t number = 5;

    wanted_tag = TEST_TAG_NUMBER;
    in(ref, subscribe, NULL);
    wanted_filter = is_multiple;
    in(ref, subscribe, &two);
    in(ref, unsubscribe, NULL);
    cr_assert_eq(said, TROUPE_OK);
    cr_assert_eq(publish_number(2), 0);
    in(ref, unsubscribe, NULL);
    cr_assert_eq(said, TROUPE_E_MISSING);
    cr_assert_eq(troupe_post_publish(the_system, &test_other, &number), 1);
    test_run(the_system);
    cr_assert_eq(heard.count, 1);
    in(spawn_listener(NULL, &other), unsubscribe, NULL);
    cr_assert_eq(said, TROUPE_E_MISSING);
}

Test(event, a_subscription_ends_with_its_actor)
{
    uint64_t bytes;

    (void)spawn_subscriber(TEST_TAG_OTHER, &other);
    bytes = test_counters(the_system).bytes;
    for (int i = 0; i < 50; i++) {
        troupe_ref ref = spawn_subscriber(TEST_TAG_NUMBER, &heard);

        cr_assert_eq(publish_number(1), 1);
        if (i % 2 == 0) {
            in(ref, be_done, NULL);
        } else {
            cr_assert_eq(troupe_post_stop_now(the_system, ref), TROUPE_OK);
            test_run(the_system);
        }
        cr_assert_eq(publish_number(2), 0);
        /* Whoever gets the cell next has not subscribed. */
        (void)test_spawn_doer(the_system, NULL);
        cr_assert_eq(publish_number(3), 0);
    }
    cr_assert_eq(heard.count, 50);
    cr_assert_leq(test_counters(the_system).bytes, bytes + 65536);
    cr_assert_eq(test_counters(the_system).dead, 0, "nobody lost anything");
}

static troupe_status
subscribe_in_start(troupe_self *self, void *state, const void *arg)
{
    memcpy(state, arg, sizeof(struct heard *));
    return troupe_subscribe(self, TEST_TAG_NUMBER, NULL, NULL);
}

static void
subscribe_in_stop(troupe_self *self, void *state, const troupe_exit *why)
{
    (void)state;
    (void)why;
    said = troupe_subscribe(self, TEST_TAG_NUMBER, NULL, NULL);
}

Test(event, start_may_subscribe_and_stop_may_not)
{
    static const troupe_actor_type type = {.size = sizeof(troupe_actor_type),
        .name = "early",
        .state_bytes = sizeof(struct heard *),
        .receive = listen_to,
        .start = subscribe_in_start,
        .stop = subscribe_in_stop};
    troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);
    struct heard *mine = &heard;
    troupe_ref ref = TROUPE_NONE;

    options.arg = &mine;
    options.arg_bytes = sizeof mine;
    cr_assert_eq(
        troupe_system_spawn(the_system, &type, &options, &ref), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(publish_number(1), 1);
    cr_assert_eq(heard.count, 1);
    cr_assert_eq(troupe_post_stop(the_system, ref), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(said, TROUPE_E_STATE);
    cr_assert_eq(publish_number(1), 0);
}

Test(event, tags_of_the_library_are_its_own)
{
    static const troupe_tag bad[] = {0, TROUPE_TAG_RESERVED, TROUPE_TAG_DOWN,
        TROUPE_TAG_FAILURE, UINT32_MAX};
    troupe_ref ref = spawn_listener(NULL, &heard);
    troupe_msg_type forged = test_empty;

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        wanted_tag = bad[i];
        in(ref, subscribe, NULL);
        cr_assert_eq(said, TROUPE_E_INVALID);
        in(ref, unsubscribe, NULL);
        cr_assert_eq(said, TROUPE_E_INVALID);
    }
    wanted_tag = TROUPE_TAG_DEAD_LETTER;
    in(ref, subscribe, NULL);
    cr_assert_eq(said, TROUPE_OK);
    forged.tag = TROUPE_TAG_DEAD_LETTER;
    cr_assert_eq(troupe_post_publish(the_system, &forged, NULL), 0);
    cr_assert_eq(troupe_last_error().status, TROUPE_E_INVALID);
    cr_assert_eq(heard.count, 0);
}

Test(event, null_is_refused)
{
    uint64_t number = 1;

    cr_assert_eq(troupe_subscribe(NULL, 1, NULL, NULL), TROUPE_E_INVALID);
    cr_assert_eq(troupe_unsubscribe(NULL, 1), TROUPE_E_INVALID);
    cr_assert_eq(troupe_publish(NULL, &test_number, &number), 0);
    cr_assert_eq(troupe_post_publish(NULL, &test_number, &number), 0);
    cr_assert_eq(troupe_post_publish(the_system, NULL, NULL), 0);
    cr_assert_eq(troupe_post_publish(the_system, &test_number, NULL), 0);
    cr_assert_eq(troupe_last_error().status, TROUPE_E_INVALID);
}

Test(event, a_stopping_system_publishes_nothing_from_outside)
{
    (void)spawn_subscriber(TEST_TAG_NUMBER, &heard);
    troupe_system_request_stop(the_system);
    cr_assert_eq(publish_number(1), 0);
    cr_assert_eq(troupe_last_error().status, TROUPE_E_CLOSED);
    cr_assert_str_eq(troupe_last_error().call, "troupe_post_publish");
    cr_assert_eq(heard.count, 0);
}

/* --- what a payload owns -------------------------------------------------- */

static _Atomic uint64_t drops;

Test(event, a_shared_payload_is_dropped_once_after_the_last)
{
    struct test_large payload = {.owned = {&drops, 9}};
    static struct heard many[3];

    cr_assert_eq(troupe_post_publish(the_system, &test_shared, &payload), 0);
    cr_assert_eq(drops, 1, "taken, although nobody listens");
    for (int i = 0; i < 3; i++) {
        many[i].take = true;
        (void)spawn_subscriber(TEST_TAG_SHARED, &many[i]);
    }
    cr_assert_eq(troupe_post_publish(the_system, &test_shared, &payload), 3);
    test_run(the_system);
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(drops, 1);
        cr_assert_eq(many[i].count, 1);
        troupe_msg_free(many[i].taken[0]);
    }
    cr_assert_eq(drops, 2);
}

Test(event, what_owns_something_and_is_not_shared_is_refused)
{
    struct test_large payload = {.owned = {&drops, 9}};

    (void)spawn_subscriber(TEST_TAG_LARGE, &heard);
    cr_assert_eq(troupe_post_publish(the_system, &test_large, &payload), 0);
    cr_assert_eq(troupe_last_error().status, TROUPE_E_INVALID);
    cr_assert_eq(drops, 0, "the caller's still");
    cr_assert_eq(heard.count, 0);
}

static troupe_verdict
publish_current(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)state;
    cr_assert_eq(troupe_publish(self, &test_shared, msg->payload), 2);
    return TROUPE_CONTINUE;
}

Test(event, the_payload_of_the_current_message_is_passed_on)
{
    static const troupe_actor_type type = {.size = sizeof(troupe_actor_type),
        .name = "relay",
        .receive = publish_current};
    struct test_large payload = {.owned = {&drops, 9}};
    troupe_ref relay = TROUPE_NONE;

    (void)spawn_subscriber(TEST_TAG_SHARED, &heard);
    (void)spawn_subscriber(TEST_TAG_SHARED, &other);
    cr_assert_eq(
        troupe_system_spawn(the_system, &type, NULL, &relay), TROUPE_OK);
    cr_assert_eq(
        troupe_post(the_system, relay, &test_shared, &payload), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(heard.count, 1);
    cr_assert_eq(other.count, 1);
    cr_assert(troupe_ref_equal(heard.event[0].sender, relay));
    cr_assert_eq(drops, 1);
}

/* --- the library's own ---------------------------------------------------- */

static troupe_verdict
spawn_below(troupe_self *self, void *user)
{
    *(troupe_ref *)user = test_spawn_doer_below(self, "child");
    return TROUPE_CONTINUE;
}

Test(event, the_beginning_and_the_end_of_an_actor_are_told)
{
    troupe_ref parent = spawn_listener("parent", &other);
    troupe_ref child = TROUPE_NONE;
    troupe_ref listener = spawn_subscriber(TROUPE_TAG_ACTOR_STARTED, &heard);

    wanted_tag = TROUPE_TAG_ACTOR_STOPPED;
    in(listener, subscribe, NULL);
    in(parent, spawn_below, &child);
    in(parent, be_done, NULL);
    cr_assert_eq(heard.count, 3);
    cr_assert_eq(heard.event[0].tag, TROUPE_TAG_ACTOR_STARTED);
    cr_assert(troupe_ref_equal(heard.event[0].life.exit.actor, child));
    cr_assert(troupe_ref_equal(heard.event[0].life.parent, parent));
    cr_assert_str_eq(heard.event[0].life.type, "doer");
    cr_assert(troupe_ref_is_none(heard.event[0].sender));
    cr_assert_eq(heard.event[1].tag, TROUPE_TAG_ACTOR_STOPPED);
    cr_assert(troupe_ref_equal(heard.event[1].life.exit.actor, child));
    cr_assert_eq(heard.event[1].life.exit.kind, TROUPE_EXIT_STOPPED);
    cr_assert(troupe_ref_equal(heard.event[1].life.parent, parent));
    cr_assert_eq(heard.event[2].tag, TROUPE_TAG_ACTOR_STOPPED);
    cr_assert(troupe_ref_equal(heard.event[2].life.exit.actor, parent));
    cr_assert_eq(heard.event[2].life.exit.kind, TROUPE_EXIT_DONE);
    cr_assert(troupe_ref_is_none(heard.event[2].life.parent));
    cr_assert_str_eq(heard.event[2].life.type, "listener");
}

static troupe_status
refuse_to_start(troupe_self *self, void *state, const void *arg)
{
    (void)state;
    (void)arg;
    (void)troupe_fail(self, 12);
    return TROUPE_E_INVALID;
}

Test(event, an_actor_that_cannot_start_is_told_twice)
{
    static const troupe_actor_type type = {.size = sizeof(troupe_actor_type),
        .name = "broken",
        .receive = listen_to,
        .start = refuse_to_start};
    troupe_ref listener = spawn_subscriber(TROUPE_TAG_ACTOR_STARTED, &heard);
    troupe_ref broken = TROUPE_NONE;

    wanted_tag = TROUPE_TAG_ACTOR_STOPPED;
    in(listener, subscribe, NULL);
    cr_assert_eq(
        troupe_system_spawn(the_system, &type, NULL, &broken), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(heard.count, 2);
    cr_assert_eq(heard.event[0].tag, TROUPE_TAG_ACTOR_STARTED);
    cr_assert_eq(heard.event[1].life.exit.kind, TROUPE_EXIT_START_FAILED);
    cr_assert_eq(heard.event[1].life.exit.code, 12);
    cr_assert(troupe_ref_equal(heard.event[1].life.exit.actor, broken));
}

Test(event, ports_are_no_actors)
{
    troupe_port *port = NULL;

    (void)spawn_subscriber(TROUPE_TAG_ACTOR_STARTED, &heard);
    cr_assert_eq(troupe_port_open(the_system, "p", &port), TROUPE_OK);
    troupe_port_close(port);
    test_run(the_system);
    cr_assert_eq(heard.count, 0);
}

static troupe_ref
dead_actor(void)
{
    troupe_ref ref = test_spawn_doer(the_system, NULL);

    cr_assert_eq(troupe_post_stop(the_system, ref), TROUPE_OK);
    test_run(the_system);
    return ref;
}

static void
lose(uint64_t number)
{
    troupe_post_tell(the_system, dead_actor(), &test_number, &number);
    test_run(the_system);
}

static troupe_verdict
tell_the_dead(troupe_self *self, void *user)
{
    uint64_t number = 19;

    troupe_tell(self, *(troupe_ref *)user, &test_number, &number);
    return TROUPE_CONTINUE;
}

Test(event, a_dead_letter_is_told_with_its_message)
{
    troupe_ref dead = dead_actor();
    troupe_ref sender = spawn_listener(NULL, &other);

    (void)spawn_subscriber(TROUPE_TAG_DEAD_LETTER, &heard);
    in(sender, tell_the_dead, &dead);
    cr_assert_eq(heard.count, 1);
    cr_assert(troupe_ref_is_none(heard.event[0].sender));
    cr_assert_eq(heard.event[0].letter.reason, TROUPE_DEAD_STOPPED);
    cr_assert(troupe_ref_equal(heard.event[0].letter.recipient, dead));
    cr_assert_eq(heard.event[0].letter_tag, TEST_TAG_NUMBER);
    cr_assert_eq(heard.event[0].letter_number, 19);
    cr_assert(troupe_ref_equal(heard.event[0].letter_sender, sender));
    cr_assert_eq(test_letters.total, 1, "the hook was told, too");
}

Test(event, a_dead_letter_that_was_taken_lives_on)
{
    const troupe_dead_letter *letter;

    heard.take = true;
    (void)spawn_subscriber(TROUPE_TAG_DEAD_LETTER, &heard);
    (void)spawn_subscriber(TROUPE_TAG_DEAD_LETTER, &other);
    lose(23);
    lose(24);
    cr_assert_eq(heard.count, 2);
    cr_assert_eq(other.count, 2);
    letter = troupe_payload(heard.taken[0], troupe_dead_letter);
    cr_assert_eq(*troupe_payload(letter->msg, uint64_t), 23);
    troupe_msg_free(heard.taken[0]);
    troupe_msg_free(heard.taken[1]);
}

Test(event, a_dead_letter_that_owned_something_has_no_payload)
{
    struct test_large large = {.owned = {&drops, 9}};
    struct test_large shared = {.owned = {&drops, 10}};

    (void)spawn_subscriber(TROUPE_TAG_DEAD_LETTER, &heard);
    troupe_post_tell(the_system, dead_actor(), &test_large, &large);
    cr_assert_eq(drops, 1);
    troupe_post_tell(the_system, dead_actor(), &test_shared, &shared);
    cr_assert_eq(drops, 1, "on its way to the listener");
    test_run(the_system);
    cr_assert_eq(drops, 2);
    cr_assert_eq(heard.count, 2);
    cr_assert_not(heard.event[0].has_letter_payload);
    cr_assert_eq(heard.event[0].letter_tag, TEST_TAG_LARGE);
    cr_assert(heard.event[1].has_letter_payload);
}

/* --- no end of letters ---------------------------------------------------- */

static uint32_t listed;

static bool
count_entry(const troupe_dead_letter_entry *entry, void *user)
{
    (void)user;
    cr_assert_neq(troupe_msg_tag(entry->letter.msg), TROUPE_TAG_DEAD_LETTER);
    listed++;
    return true;
}

static void
expect_no_loop(void)
{
    cr_assert_eq(troupe_dead_letters_list(the_system, NULL, count_entry, NULL),
        TROUPE_OK);
    cr_assert_eq(listed, 1);
    cr_assert_eq(test_counters(the_system).dead, 2);
    cr_assert_eq(test_letters.total, 2);
    cr_assert_eq(test_letters.last.tag, TROUPE_TAG_DEAD_LETTER);
}

static const troupe_msg_type moved_type = {sizeof(troupe_msg_type), "moved",
    sizeof(struct test_large), TEST_TAG_OTHER, 0, test_drop};

static troupe_ref heir;

static troupe_verdict
move_on(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)state;
    cr_assert_eq(troupe_send(self, heir, &moved_type, msg->payload), TROUPE_OK);
    return TROUPE_UNHANDLED;
}

Test(event, a_dead_letter_whose_payload_was_moved_on_has_none)
{
    static const troupe_actor_type mover = {
        .size = sizeof mover, .name = "mover", .receive = move_on};
    struct test_large payload = {.owned = {&drops, 9}};
    troupe_ref ref;

    (void)spawn_subscriber(TROUPE_TAG_DEAD_LETTER, &heard);
    heir = spawn_listener("heir", &other);
    test_require(
        troupe_system_spawn(the_system, &mover, NULL, &ref) == TROUPE_OK);
    cr_assert_eq(
        troupe_post(the_system, ref, &test_shared, &payload), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(other.count, 1);
    cr_assert_eq(heard.count, 1);
    cr_assert_eq(heard.event[0].letter_tag, TEST_TAG_SHARED);
    cr_assert_not(heard.event[0].has_letter_payload);
    cr_assert_eq(drops, 1);
}

static void
setup_store(void)
{
    static const troupe_dead_letter_options store = {
        .size = TROUPE_OPTIONS(troupe_dead_letter_options), .capacity = 100};
    troupe_system_options options = test_options();

    options.flags |= TROUPE_SYSTEM_DRIVEN;
    options.dead_letters = &store;
    the_system = test_open(&options);
}

TestSuite(event_loop, .init = setup_store, .fini = teardown);

Test(event_loop, a_dead_letter_that_is_lost_makes_no_other)
{
    troupe_ref dead = dead_actor();
    troupe_ref listener = spawn_subscriber(TROUPE_TAG_DEAD_LETTER, &heard);
    uint64_t number = 1;

    (void)spawn_subscriber(TROUPE_TAG_DEAD_LETTER, &other);
    troupe_post_tell(the_system, dead, &test_number, &number);
    cr_assert_eq(troupe_post_stop_now(the_system, listener), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(heard.count, 0);
    cr_assert_eq(other.count, 1);
    expect_no_loop();
}

Test(event_loop, a_dead_letter_that_is_not_handled_makes_no_other)
{
    heard.answer = TROUPE_UNHANDLED;
    (void)spawn_subscriber(TROUPE_TAG_DEAD_LETTER, &heard);
    lose(1);
    cr_assert_eq(heard.count, 1);
    expect_no_loop();
}

Test(event_loop, the_last_events_of_a_listener_are_letters)
{
    troupe_ref listener = spawn_subscriber(TROUPE_TAG_ACTOR_STARTED, &heard);

    (void)spawn_subscriber(TROUPE_TAG_DEAD_LETTER, &other);
    listed = 0;
    (void)test_spawn_doer(the_system, NULL);
    cr_assert_eq(troupe_post_stop_now(the_system, listener), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(other.count, 1);
    cr_assert_eq(other.event[0].letter_tag, TROUPE_TAG_ACTOR_STARTED);
    cr_assert_eq(troupe_dead_letters_list(the_system, NULL, count_entry, NULL),
        TROUPE_OK);
    cr_assert_eq(listed, 1);
}
