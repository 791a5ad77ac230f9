/* SPDX-License-Identifier: MIT */

/*
 * Dead letters that arrive from actors and threads while others list, get,
 * replay and clear them, and while actors subscribe to them and to events, and
 * end. What is shown is whole, what was shared is dropped once, and the hook
 * sees as many letters as are counted.
 */
#include "stress.h"

#include <inttypes.h>
#include <stdlib.h>

enum { ACTORS = 8, THREADS = 6, STEPS = 300 };

struct note {
    uint64_t number;
    uint64_t same[4]; /* the same in all of them */
    _Atomic uint64_t *dropped;
};

static void
drop_note(void *payload, size_t bytes)
{
    struct note *what = payload;

    STRESS_CHECK(bytes == sizeof *what, "%zu bytes", bytes);
    atomic_fetch_add(what->dropped, 1);
}

TROUPE_MSG_TYPE(number, uint64_t, 1);
TROUPE_MSG_TYPE(note, struct note, 2);
TROUPE_MSG_TYPE_WITH(shared, struct note, 3, TROUPE_MSG_SHARED, drop_note);
TROUPE_MSG_TYPE_WITH(owned, struct note, 4, 0, drop_note);
TROUPE_MSG_TYPE_WITH(news, struct note, 5, TROUPE_MSG_SHARED, drop_note);
TROUPE_MSG_TYPE_EMPTY(go, 6);

struct storm {
    troupe_system *system;
    _Atomic uint64_t refs[ACTORS];
    _Atomic uint64_t letters; /* the hook was shown */
    _Atomic uint64_t shown;   /* visitors were */
    _Atomic uint64_t heard;   /* subscribers were */
    _Atomic uint64_t made;    /* payloads that own something */
    _Atomic uint64_t dropped;
    _Atomic uint64_t seeds;
    _Atomic bool over;
};

struct party {
    struct storm *storm;
    struct test_rng rng;
    pthread_t thread;
};

/* --- what is shown is whole ----------------------------------------------- */

static void
check_note(const struct note *what)
{
    for (int i = 0; i < 4; i++) {
        STRESS_CHECK(what->same[i] == what->number, "%" PRIu64 " and %" PRIu64,
            what->number, what->same[i]);
    }
}

static void
check_message(const troupe_msg *msg)
{
    switch (troupe_msg_tag(msg)) {
    case 1:
        STRESS_CHECK(*troupe_payload(msg, uint64_t) < UINT64_MAX, "a number");
        break;
    case 2:
    case 3:
    case 5:
        check_note(troupe_payload(msg, struct note));
        break;
    case TROUPE_TAG_ACTOR_STARTED:
    case TROUPE_TAG_ACTOR_STOPPED:
        STRESS_CHECK(
            troupe_payload(msg, troupe_actor_event)->type != NULL, "a type");
        break;
    default:
        break;
    }
}

static void
on_dead_letter(
    troupe_system *system, const troupe_dead_letter *letter, void *user)
{
    struct storm *storm = user;

    (void)system;
    STRESS_CHECK(letter->msg != NULL, "a message");
    atomic_fetch_add(&storm->letters, 1);
}

/* --- losing --------------------------------------------------------------- */

static struct note
new_note(struct party *party)
{
    struct note what = {.number = test_random(&party->rng) / 2,
        .dropped = &party->storm->dropped};

    for (int i = 0; i < 4; i++) {
        what.same[i] = what.number;
    }
    return what;
}

static troupe_ref
somebody(struct party *party)
{
    return stress_unpack(atomic_load(
        &party->storm->refs[test_random_below(&party->rng, ACTORS)]));
}

/* To an actor that lives, has ended, or will not have it. */
static void
send_one(struct party *party, troupe_self *self)
{
    static const troupe_msg_type *const types[] = {&note, &shared, &owned};
    uint32_t kind = test_random_below(&party->rng, 4);
    struct note what = new_note(party);
    troupe_ref to = somebody(party);

    if (kind == 3) {
        troupe_post_tell(party->storm->system, to, &number, &what.number);
        return;
    }
    if (kind != 0) {
        atomic_fetch_add(&party->storm->made, 1);
    }
    if (self != NULL) {
        troupe_tell(self, to, types[kind], &what);
    } else {
        troupe_post_tell(party->storm->system, to, types[kind], &what);
    }
}

static void
publish_one(struct party *party, troupe_self *self)
{
    struct note what = new_note(party);

    atomic_fetch_add(&party->storm->made, 1);
    if (self != NULL) {
        (void)troupe_publish(self, &news, &what);
    } else {
        (void)troupe_post_publish(party->storm->system, &news, &what);
    }
}

/* --- actors --------------------------------------------------------------- */

static bool
is_even(const troupe_msg *msg, void *user)
{
    (void)user;
    check_message(msg);
    return msg->bytes % 2 == 0;
}

static void
change_subscriptions(struct party *party, troupe_self *self)
{
    static const troupe_tag tags[] = {TROUPE_TAG_DEAD_LETTER,
        TROUPE_TAG_ACTOR_STARTED, TROUPE_TAG_ACTOR_STOPPED, 5};
    troupe_tag tag = tags[test_random_below(&party->rng, 4)];
    troupe_status status;

    if (test_random_below(&party->rng, 2) == 0) {
        status = troupe_subscribe(self, tag,
            test_random_below(&party->rng, 2) == 0 ? is_even : NULL, NULL);
        STRESS_CHECK(status == TROUPE_OK, "%s", troupe_status_name(status));
    } else {
        status = troupe_unsubscribe(self, tag);
        STRESS_CHECK(status == TROUPE_OK || status == TROUPE_E_MISSING, "%s",
            troupe_status_name(status));
    }
}

/* Its party: the storm, and random numbers of its own. */
static troupe_status
start_actor(troupe_self *self, void *state, const void *arg)
{
    struct party *party = state;

    (void)self;
    party->storm = *(struct storm *const *)arg;
    party->rng.state = atomic_fetch_add(&party->storm->seeds, 1) *
                       UINT64_C(0x9e3779b97f4a7c15);
    return TROUPE_OK;
}

static troupe_verdict
live(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct party *party = state;
    uint32_t drawn = test_random_below(&party->rng, 100);

    check_message(msg);
    switch (troupe_msg_tag(msg)) {
    case TROUPE_TAG_DEAD_LETTER:
        check_message(
            troupe_payload(msg, troupe_dead_letter)->msg->payload != NULL
                ? troupe_payload(msg, troupe_dead_letter)->msg
                : msg);
        atomic_fetch_add(&party->storm->heard, 1);
        return drawn < 10 ? TROUPE_UNHANDLED : TROUPE_CONTINUE;
    case TROUPE_TAG_ACTOR_STARTED:
    case TROUPE_TAG_ACTOR_STOPPED:
    case 5:
        atomic_fetch_add(&party->storm->heard, 1);
        return drawn < 10 ? TROUPE_UNHANDLED : TROUPE_CONTINUE;
    default:
        break;
    }
    if (atomic_load(&party->storm->over)) {
        return TROUPE_CONTINUE;
    }
    change_subscriptions(party, self);
    if (drawn < 10) {
        send_one(party, self);
    } else if (drawn < 20) {
        publish_one(party, self);
    } else if (drawn < 25) {
        return TROUPE_DONE;
    } else if (drawn < 60) {
        return TROUPE_UNHANDLED;
    } else if (drawn < 65) {
        troupe_forward(self, somebody(party));
    }
    return TROUPE_CONTINUE;
}

static const troupe_actor_type actor_type = {
    .size = sizeof(troupe_actor_type),
    .name = "actor",
    .state_bytes = sizeof(struct party),
    .receive = live,
    .start = start_actor,
};

/* --- threads -------------------------------------------------------------- */

static bool
visit(const troupe_dead_letter_entry *entry, void *user)
{
    struct party *party = user;
    const troupe_msg *msg = entry->letter.msg;

    atomic_fetch_add(&party->storm->shown, 1);
    STRESS_CHECK(entry->id != 0, "an id");
    if (msg->payload != NULL) {
        check_message(msg);
    }
    if (test_random_below(&party->rng, 3) == 0) {
        troupe_status status =
            troupe_dead_letters_replay(party->storm->system, entry->id,
                test_random_below(&party->rng, 2) == 0 ? TROUPE_NONE
                                                       : somebody(party));

        STRESS_CHECK(status == TROUPE_OK || status == TROUPE_E_MISSING ||
                         status == TROUPE_E_INVALID ||
                         status == TROUPE_E_LIMIT || status == TROUPE_E_DEAD,
            "%s", troupe_status_name(status));
    }
    return test_random_below(&party->rng, 50) != 0;
}

static void
use_store(struct party *party)
{
    troupe_dead_letter_filter filter = TROUPE_INIT(troupe_dead_letter_filter);
    troupe_system *system = party->storm->system;
    troupe_status status = TROUPE_OK;

    switch (test_random_below(&party->rng, 8)) {
    case 0:
        (void)troupe_dead_letters_clear(system);
        break;
    case 1:
        status = troupe_dead_letters_get(
            system, 1 + test_random_below(&party->rng, 1000), visit, party);
        break;
    case 2:
        filter.subtree = "/user";
        filter.limit = 5;
        status = troupe_dead_letters_list(system, &filter, visit, party);
        break;
    default:
        status = troupe_dead_letters_list(system, NULL, visit, party);
        break;
    }
    STRESS_CHECK(status == TROUPE_OK || status == TROUPE_E_MISSING, "%s",
        troupe_status_name(status));
}

static void *
act(void *user)
{
    struct party *party = user;
    struct storm *storm = party->storm;

    for (int i = 0; i < STEPS; i++) {
        uint32_t place = test_random_below(&party->rng, ACTORS);

        switch (test_random_below(&party->rng, 6)) {
        case 0:
            atomic_store(&storm->refs[place],
                stress_pack(stress_spawn(storm->system, &actor_type, storm)));
            break;
        case 1:
            use_store(party);
            break;
        case 2:
            publish_one(party, NULL);
            break;
        default:
            send_one(party, NULL);
            break;
        }
        troupe_post_tell(storm->system, somebody(party), &go, NULL);
        stress_jitter(&party->rng);
    }
    return NULL;
}

static uint64_t
run(struct test_rng *rng)
{
    static const uint64_t retention[] = {0, 1, 50000, TROUPE_FOREVER};
    const troupe_dead_letter_options store = {sizeof store,
        1 + test_random_below(rng, 64), test_random_below(rng, 5),
        retention[test_random_below(rng, 4)]};
    troupe_system_options options = stress_options(stress_workers(rng));
    uint32_t count = stress_threads(rng, THREADS);
    struct storm *storm = stress_zeroed(1, sizeof *storm);
    struct party parties[THREADS];
    uint64_t letters;

    options.dead_letters = &store;
    options.dead_letter.fn = on_dead_letter;
    options.dead_letter.user = storm;
    atomic_store(&storm->seeds, test_random(rng));
    storm->system = stress_open(&options);
    for (uint32_t i = 0; i < ACTORS; i++) {
        atomic_store(&storm->refs[i],
            stress_pack(stress_spawn(storm->system, &actor_type, storm)));
    }
    for (uint32_t i = 0; i < count; i++) {
        parties[i] = (struct party){.storm = storm};
        parties[i].rng.state = test_random(rng);
        stress_thread(&parties[i].thread, act, &parties[i]);
    }
    for (uint32_t i = 0; i < count; i++) {
        stress_join(parties[i].thread);
    }
    atomic_store(&storm->over, true);
    if (test_random_below(rng, 2) == 0) {
        stress_await_idle(storm->system);
        STRESS_CHECK(
            stress_counters(storm->system).dead == atomic_load(&storm->letters),
            "the hook missed some");
    }
    stress_close(storm->system);
    STRESS_CHECK(atomic_load(&storm->made) == atomic_load(&storm->dropped),
        "%" PRIu64 " made, %" PRIu64 " dropped", atomic_load(&storm->made),
        atomic_load(&storm->dropped));
    letters = atomic_load(&storm->letters);
    free(storm);
    return letters;
}

int
main(int argc, char **argv)
{
    struct test_rng rng;
    uint64_t letters = 0;

    stress_begin(argc, argv);
    while (stress_more(&rng)) {
        letters += run(&rng);
    }
    return stress_end(letters, "dead letters");
}
