/* SPDX-License-Identifier: MIT */

/*
 * Mailboxes of every kind and policy under many senders, while the actor is
 * slow, stashes, puts back, fails, is suspended, and stops. Every message
 * offered is handled, dropped, refused or a dead letter, exactly one; no more
 * droppable ones wait than the capacity; what survives of one sender keeps its
 * order, but for priorities.
 */
#include "stress.h"

#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum { SENDERS = 64, MOST_EACH = 400, KEPT_EVERY = 17 };

struct offer {
    uint32_t sender;
    uint32_t number;
};
TROUPE_MSG_TYPE(offer, struct offer, 1);
TROUPE_MSG_TYPE_WITH(vital, struct offer, 2, TROUPE_MSG_UNDROPPABLE, NULL);
TROUPE_MSG_TYPE_EMPTY(go, 3);

enum fate { OPEN = 0, HANDLED, DROPPED, REFUSED, DEAD };

struct box {
    troupe_system *system;
    troupe_ref ref;
    troupe_mailbox_options options;
    uint32_t each;  /* messages of one sender */
    uint32_t limit; /* of a mailbox of our own; 0 = it is the library's */
    bool ordered;   /* by priority */
    bool stashes;
    bool fails;          /* now and then */
    uint32_t stop_after; /* handled; 0 = does not stop itself */
    struct test_rng rng; /* of the receiver */
    uint32_t next[SENDERS];
    uint32_t handled;
    _Atomic uint32_t kept;    /* undroppable ones offered so far */
    _Atomic uint32_t at_work; /* senders */
    _Atomic uint8_t fate[SENDERS][MOST_EACH];
};

struct sender {
    struct box *box;
    uint32_t id;
    uint32_t next;
    struct test_rng rng;
    pthread_t thread;
};

static struct box *the_box; /* of this round, for the hooks */

static void
decide(const struct offer *what, enum fate fate)
{
    uint8_t before = atomic_exchange(
        &the_box->fate[what->sender][what->number], (uint8_t)fate);

    STRESS_CHECK(before == OPEN, "%u.%u: first %u, then %u", what->sender,
        what->number, before, fate);
}

static void
on_drop(troupe_drop_reason reason, const troupe_msg *msg, void *user)
{
    STRESS_CHECK(user == the_box && reason <= TROUPE_DROP_HEAD, "on_drop");
    STRESS_CHECK(!troupe_msg_is(msg, &vital), "an undroppable one was dropped");
    STRESS_CHECK(the_box->limit != 0 ||
                     the_box->options.overflow != TROUPE_OVERFLOW_REJECT,
        "reject has dropped one");
    decide(troupe_payload(msg, struct offer), DROPPED);
}

static void
on_dead_letter(
    troupe_system *system, const troupe_dead_letter *letter, void *user)
{
    (void)system;
    (void)user;
    if (letter->msg->payload != NULL && !troupe_msg_is(letter->msg, &go)) {
        decide(troupe_payload(letter->msg, struct offer), DEAD);
    }
}

/* --- a mailbox of our own: first in first out, drops the oldest it may ------
 */

enum { PLACES = 1 << 15 }; /* more than all senders have */

struct line {
    const struct box *box;
    uint32_t first, end;
    uint32_t droppable;
    troupe_msg *msg[PLACES];
};

static void *
open_line(void *user)
{
    struct line *line = calloc(1, sizeof *line);

    if (line != NULL) {
        line->box = user;
    }
    return line;
}

static void
close_line(void *box)
{
    struct line *line = box;

    STRESS_CHECK(line->first == line->end, "closed with something in it");
    free(line);
}

static bool
is_vital(const troupe_msg *msg)
{
    return (msg->type->flags & TROUPE_MSG_UNDROPPABLE) != 0;
}

/* One place becomes free: the oldest goes, or else the new one. */
static bool
evict(struct line *line, troupe_msg *msg, troupe_msg **evicted)
{
    troupe_msg **oldest = &line->msg[line->first % PLACES];

    if (line->droppable < line->box->limit) {
        return true;
    }
    if (line->box->limit % 2 == 0 || is_vital(*oldest)) {
        *evicted = msg;
        return false;
    }
    *evicted = *oldest;
    line->first++;
    line->droppable--;
    return true;
}

static troupe_status
enqueue(void *box, troupe_msg *msg, troupe_msg **evicted)
{
    struct line *line = box;

    if (line->box->limit % 3 == 0 && line->droppable >= line->box->limit) {
        return TROUPE_E_FULL;
    }
    if (evict(line, msg, evicted)) {
        line->msg[line->end++ % PLACES] = msg;
        line->droppable++;
    }
    return TROUPE_OK;
}

static troupe_status
enqueue_vital(void *box, troupe_msg *msg)
{
    struct line *line = box;

    line->msg[line->end++ % PLACES] = msg;
    return TROUPE_OK;
}

static troupe_status
prepend(void *box, troupe_msg *msg, troupe_msg **evicted)
{
    struct line *line = box;

    (void)evicted;
    if (line->droppable >= line->box->limit) {
        return TROUPE_E_FULL;
    }
    line->msg[--line->first % PLACES] = msg;
    line->droppable++;
    return TROUPE_OK;
}

static troupe_msg *
dequeue(void *box)
{
    struct line *line = box;
    troupe_msg *msg;

    if (line->first == line->end) {
        return NULL;
    }
    msg = line->msg[line->first++ % PLACES];
    line->droppable -= is_vital(msg) ? 0 : 1;
    return msg;
}

static size_t
length(const void *box)
{
    const struct line *line = box;

    return line->end - line->first;
}

static const troupe_custom_mailbox line_mailbox = {
    .size = sizeof(troupe_custom_mailbox),
    .name = "line",
    .open = open_line,
    .close = close_line,
    .enqueue = enqueue,
    .enqueue_undroppable = enqueue_vital,
    .prepend = prepend,
    .dequeue = dequeue,
    .length = length,
};

/* --- the receiver --------------------------------------------------------- */

static double
rank_of(const troupe_msg *msg, void *user)
{
    (void)user;
    return (double)(troupe_payload(msg, struct offer)->number % 7);
}

static troupe_verdict
receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct box *box = STRESS_STATE(struct box, state);
    const struct offer *what = troupe_payload(msg, struct offer);

    if (box->stashes && test_random_below(&box->rng, 4) == 0 &&
        troupe_stash(self) == TROUPE_OK) {
        if (test_random_below(&box->rng, 3) == 0) {
            (void)!troupe_unstash(self, test_random_below(&box->rng, 4));
        }
        return TROUPE_CONTINUE;
    }
    decide(what, HANDLED);
    if (!box->ordered && !box->stashes) {
        STRESS_CHECK(what->number >= box->next[what->sender],
            "sender %u: %u after %u", what->sender, what->number,
            box->next[what->sender]);
        box->next[what->sender] = what->number + 1;
    }
    if (test_random_below(&box->rng, 64) == 0) {
        stress_spin_ns(test_random_below(&box->rng, 20000));
    }
    if (troupe_stash_length(self) != 0 &&
        test_random_below(&box->rng, 8) == 0) {
        (void)!troupe_unstash(self, 0);
    }
    if (++box->handled == box->stop_after) {
        return TROUPE_DONE;
    }
    return box->fails && test_random_below(&box->rng, 64) == 0
               ? TROUPE_FAILED
               : TROUPE_CONTINUE;
}

static const troupe_actor_type receiver_type = STRESS_ACTOR(receive);

/* One more; false: that was all. */
static bool
offer_one(struct sender *sender, troupe_self *self)
{
    struct box *box = sender->box;
    struct offer what = {sender->id, sender->next};
    bool keep = sender->next % KEPT_EVERY == 0;
    const troupe_msg_type *type = keep ? &vital : &offer;
    troupe_status status;

    if (sender->next == box->each) {
        return false;
    }
    sender->next++;
    if (keep) {
        atomic_fetch_add(&box->kept, 1);
    }
    status = self != NULL ? troupe_send(self, box->ref, type, &what)
                          : troupe_post(box->system, box->ref, type, &what);
    if (status != TROUPE_OK) {
        STRESS_CHECK(
            status == TROUPE_E_DEAD ||
                (status == TROUPE_E_FULL && !keep &&
                    (box->limit % 3 == 0 && box->limit != 0
                            ? true
                            : box->options.overflow == TROUPE_OVERFLOW_REJECT &&
                                  box->options.capacity != 0)),
            "%s", troupe_status_name(status));
        decide(&what, REFUSED);
    }
    return true;
}

static troupe_verdict
send_some(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct sender *sender = STRESS_STATE(struct sender, state);
    uint32_t count = 1 + test_random_below(&sender->rng, 20);

    (void)msg;
    while (count-- > 0) {
        if (!offer_one(sender, self)) {
            atomic_fetch_sub(&sender->box->at_work, 1);
            return TROUPE_CONTINUE;
        }
    }
    troupe_tell(self, troupe_self_ref(self), &go, NULL);
    return TROUPE_CONTINUE;
}

static const troupe_actor_type sender_type = STRESS_ACTOR(send_some);

static void *
post_all(void *user)
{
    struct sender *sender = user;

    while (offer_one(sender, NULL)) {
        stress_jitter(&sender->rng);
    }
    atomic_fetch_sub(&sender->box->at_work, 1);
    return NULL;
}

/*
 * Reads the depth while they send: what may be dropped never exceeds the
 * capacity. Kept ones may, so they are counted first and given the benefit.
 */
static void *
look(void *user)
{
    struct box *box = user;

    while (atomic_load(&box->at_work) != 0) {
        uint32_t depth = troupe_depth(box->system, box->ref);
        uint32_t kept = atomic_load(&box->kept);

        uint32_t most = box->limit != 0 ? box->limit : box->options.capacity;

        STRESS_CHECK(
            depth == TROUPE_DEPTH_DEAD || most == 0 || depth <= most + kept,
            "%u wait, capacity %u, %u kept", depth, most, kept);
        sched_yield();
    }
    return NULL;
}

static void
choose(struct box *box, struct test_rng *rng)
{
    box->options.size = TROUPE_OPTIONS(troupe_mailbox_options);
    box->options.on_drop = on_drop;
    box->options.drop_user = box;
    box->each = 1 + test_random_below(rng, MOST_EACH);
    box->stashes = test_random_below(rng, 2) == 0;
    if (test_random_below(rng, 3) == 0) {
        box->stop_after = 1 + test_random_below(rng, box->each * 8);
    }
    box->fails = test_random_below(rng, 3) == 0;
    box->rng.state = test_random(rng);
    if (test_random_below(rng, 5) == 0) {
        box->limit = 1 + test_random_below(rng, 100);
        box->options.custom = &line_mailbox;
        box->options.custom_user = box;
        return;
    }
    box->ordered = test_random_below(rng, 3) == 0;
    if (box->ordered) {
        box->options.priority = rank_of;
    }
    if (test_random_below(rng, 8) != 0) {
        static const troupe_overflow plain[] = {TROUPE_OVERFLOW_REJECT,
            TROUPE_OVERFLOW_DROP_NEW, TROUPE_OVERFLOW_DROP_HEAD};
        static const troupe_overflow ordered[] = {TROUPE_OVERFLOW_REJECT,
            TROUPE_OVERFLOW_DROP_NEW, TROUPE_OVERFLOW_DROP_LOWEST};
        uint32_t policy = test_random_below(rng, 3);

        box->options.capacity = 1u << test_random_below(rng, 8);
        box->options.capacity += test_random_below(rng, 3);
        box->options.overflow = box->ordered ? ordered[policy] : plain[policy];
    }
}

/* What becomes of a receiver that fails: it goes on, at once or suspended. */
static void
supervise(troupe_supervision *own, troupe_backoff *pause, struct test_rng *rng)
{
    own->size = sizeof *own;
    own->max_restarts = TROUPE_RESTARTS_UNLIMITED;
    if (test_random_below(rng, 3) == 0) {
        own->otherwise = TROUPE_DIRECTIVE_RESUME;
    } else if (test_random_below(rng, 2) == 0) {
        pause->size = sizeof *pause;
        pause->min_ns = 1 + test_random_below(rng, 300000);
        pause->max_ns = 2 * pause->min_ns;
        own->backoff = pause;
    }
}

static uint64_t
check(struct box *box, uint32_t senders, const troupe_counters *counters)
{
    uint64_t fates[DEAD + 1] = {0};

    for (uint32_t i = 0; i < senders; i++) {
        for (uint32_t j = 0; j < box->each; j++) {
            fates[atomic_load(&box->fate[i][j])]++;
        }
    }
    STRESS_CHECK(fates[OPEN] == 0, "%" PRIu64 " are lost", fates[OPEN]);
    STRESS_CHECK(fates[DROPPED] == counters->dropped,
        "%" PRIu64 " dropped, counted %" PRIu64, fates[DROPPED],
        counters->dropped);
    STRESS_CHECK(fates[HANDLED] == box->handled, "%" PRIu64 " handled, %u",
        fates[HANDLED], box->handled);
    return (uint64_t)senders * box->each;
}

static uint64_t
run(struct test_rng *rng)
{
    troupe_system_options options = stress_options(stress_workers(rng));
    struct box *box = stress_zeroed(1, sizeof *box);
    struct sender *senders = stress_zeroed(SENDERS, sizeof *senders);
    uint32_t threads = stress_threads(rng, 4);
    uint32_t count = threads + test_random_below(rng, SENDERS - threads + 1);
    troupe_spawn_options spawn = TROUPE_INIT(troupe_spawn_options);
    troupe_supervision own = {0};
    troupe_backoff pause = {0};
    troupe_counters counters;
    pthread_t looker;
    uint64_t offered;

    the_box = box;
    choose(box, rng);
    options.dead_letter.fn = on_dead_letter;
    box->system = stress_open(&options);
    spawn.arg = &box;
    spawn.arg_bytes = sizeof box;
    spawn.mailbox = &box->options;
    spawn.own = &own;
    supervise(&own, &pause, rng);
    STRESS_CHECK(troupe_system_spawn(box->system, &receiver_type, &spawn,
                     &box->ref) == TROUPE_OK,
        "a receiver");
    atomic_store(&box->at_work, count);
    for (uint32_t i = 0; i < count; i++) {
        senders[i].box = box;
        senders[i].id = i;
        senders[i].rng.state = test_random(rng);
        if (i < threads) {
            stress_thread(&senders[i].thread, post_all, &senders[i]);
        } else {
            troupe_ref ref =
                stress_spawn(box->system, &sender_type, &senders[i]);

            STRESS_CHECK(
                troupe_post(box->system, ref, &go, NULL) == TROUPE_OK, "go");
        }
    }
    stress_thread(&looker, look, box);
    for (uint32_t i = 0; i < threads; i++) {
        stress_join(senders[i].thread);
    }
    stress_join(looker);
    stress_await_idle(box->system);
    STRESS_CHECK(troupe_system_stop(box->system) == TROUPE_OK, "a stop");
    counters = stress_counters(box->system);
    offered = check(box, count, &counters);
    stress_close(box->system);
    free(senders);
    free(box);
    return offered;
}

int
main(int argc, char **argv)
{
    struct test_rng rng;
    uint64_t offered = 0;

    stress_begin(argc, argv);
    while (stress_more(&rng)) {
        offered += run(&rng);
    }
    return stress_end(offered, "messages offered");
}
