/* SPDX-License-Identifier: MIT */

/*
 * The whole library, through its public calls: messages against stops, cells
 * that are used again, trees that stop while they grow, ports, and the end of a
 * system. Workers are the real ones.
 *
 * Oracle: what a sender was told was sent is handled, or a dead letter, once;
 * nobody gets a message that was sent to somebody else; start() and stop() come
 * in pairs; nobody waits for ever; at the end no memory is out, and none was
 * written to after it was freed.
 */

#include "engine.h"
#include "interleave.h"

#include "actor/cell.h"
#include "base/error.h"
#include "os.h"
#include "runner.h"
#include "support.h"

#include <troupe/troupe.h>

#include <string.h>

#define SENDERS 4

struct note {
    uint32_t sender;
    uint32_t number;
    uint32_t to; /* whom it is meant for */
};

static uint32_t dropped; /* owned notes, by the runtime */

static void
drop_note(void *payload, size_t bytes)
{
    (void)payload;
    (void)bytes;
    dropped++;
}

/* A note owns something: who has sent it does not have it any more. */
TROUPE_MSG_TYPE_WITH(note_type, struct note, 1, 0, drop_note);

static troupe_system *rt;
static troupe_ref actor;

/* Plain: looked at between two steps. */
static struct {
    uint32_t sent[SENDERS];
    uint32_t accepted[SENDERS];
    uint32_t handled[SENDERS];
    uint32_t dead[SENDERS];
    uint32_t shed[SENDERS];     /* by the rules of a mailbox */
    uint32_t expected[SENDERS]; /* at least, next */
    uint32_t started, stopped;  /* callbacks */
    uint32_t at_most;           /* alive at a time, 0 = any number */
    uint64_t inside;            /* a behaviour: a bit for each actor */
} ledger;

static void
log_nothing(const troupe_log_line *line, void *user)
{
    (void)line;
    (void)user;
}

static void
bury(troupe_system *system, const troupe_dead_letter *letter, void *user)
{
    const struct note *note;

    (void)system;
    (void)user;
    if (!troupe_msg_is(letter->msg, &note_type)) {
        return;
    }
    note = troupe_payload(letter->msg, struct note);
    MODEL_ASSERT(note->sender < SENDERS);
    ledger.dead[note->sender]++;
    model_note("buries %u.%u", note->sender, note->number);
}

/* Workers 0: driven. */
static void
begin(uint32_t workers)
{
    troupe_system_options options = {.size = sizeof options,
        .flags = TROUPE_SYSTEM_IGNORE_ENV |
                 (workers == 0 ? (uint32_t)TROUPE_SYSTEM_DRIVEN : 0),
        .workers = workers,
        .spin_us = TROUPE_SPIN_NEVER,
        .steal = TROUPE_STEAL_EAGER,
        .max_actors = 64,
        .stop_grace_ns = TROUPE_S(3600),
        .log = {.write = log_nothing},
        .dead_letter = {.fn = bury}};

    model_heap_begin();
    model_os_begin();
    memset(&ledger, 0, sizeof ledger);
    dropped = 0;
    options.alloc = model_heap.alloc;
    options.free = model_heap.free;
    MODEL_ASSERT(troupe_system_create(&options, &rt) == TROUPE_OK);
}

static void
check_messages(void)
{
    for (uint32_t i = 0; i < SENDERS; i++) {
        MODEL_CHECK(ledger.accepted[i] ==
                        ledger.handled[i] + ledger.dead[i] + ledger.shed[i],
            "of %u messages of %u %u were handled, %u shed and %u are dead",
            ledger.accepted[i], i, ledger.handled[i], ledger.shed[i],
            ledger.dead[i]);
    }
}

/* What was sent was dropped once, whatever became of it. */
static void
check_drops(void)
{
    uint32_t accepted = 0;

    for (uint32_t i = 0; i < SENDERS; i++) {
        accepted += ledger.accepted[i];
    }
    MODEL_CHECK(dropped == accepted, "%u of %u dropped", dropped, accepted);
}

static void
check_books(void)
{
    troupe_counters books = {.size = sizeof books};

    MODEL_ASSERT(troupe_counters_read(rt, &books) == TROUPE_OK);
    MODEL_CHECK(books.sent == books.handled + books.dropped + books.dead +
                                  books.refused + books.queued +
                                  books.cancelled,
        "sent %u, handled %u, dropped %u, dead %u, refused %u, queued %u, "
        "cancelled %u",
        (uint32_t)books.sent, (uint32_t)books.handled, (uint32_t)books.dropped,
        (uint32_t)books.dead, (uint32_t)books.refused, (uint32_t)books.queued,
        (uint32_t)books.cancelled);
}

/* No other thread uses the system any more. */
static void
finish(void)
{
    troupe_status status = troupe_system_stop(rt);

    MODEL_CHECK(status == TROUPE_OK, "stop: %s", troupe_status_name(status));
    check_books();
    MODEL_ASSERT(troupe_system_destroy(rt) == TROUPE_OK);
    check_messages();
    check_drops();
    MODEL_CHECK(ledger.started == ledger.stopped, "%u started, %u stopped",
        ledger.started, ledger.stopped);
    MODEL_CHECK(model_heap_live() == 0, "%llu bytes are left",
        (unsigned long long)model_heap_live());
    model_heap_check_freed();
}

/* --- actors --------------------------------------------------------------- */

struct sink {
    uint32_t name;
};

static troupe_status
start_sink(troupe_self *self, void *state, const void *arg)
{
    struct sink *sink = state;

    (void)self;
    memcpy(&sink->name, arg, sizeof sink->name);
    ledger.started++;
    MODEL_CHECK(ledger.at_most == 0 ||
                    ledger.started - ledger.stopped <= ledger.at_most,
        "%u are alive", ledger.started - ledger.stopped);
    return TROUPE_OK;
}

static void
stop_sink(troupe_self *self, void *state, const troupe_exit *why)
{
    (void)self;
    (void)state;
    (void)why;
    ledger.stopped++;
}

static void
take(const struct note *note, uint32_t to)
{
    model_note("handles %u.%u", note->sender, note->number);
    MODEL_CHECK(note->to == to, "%u gets what was sent to %u", to, note->to);
    MODEL_CHECK(note->number >= ledger.expected[note->sender],
        "%u.%u comes late", note->sender, note->number);
    ledger.expected[note->sender] = note->number + 1;
    ledger.handled[note->sender]++;
}

static uint64_t
sink_bit(const troupe_self *self)
{
    return UINT64_C(1) << (troupe_self_ref(self).index % 64);
}

static troupe_verdict
receive_sink(troupe_self *self, void *state, const troupe_msg *msg)
{
    const struct sink *sink = state;
    const struct note *note = troupe_payload(msg, struct note);

    MODEL_CHECK(
        (ledger.inside & sink_bit(self)) == 0, "two turns of one actor");
    ledger.inside |= sink_bit(self);
    model_step("in_turn");
    take(note, sink->name);
    ledger.inside &= ~sink_bit(self);
    return TROUPE_CONTINUE;
}

static const troupe_actor_type sink_type = {
    .size = sizeof(troupe_actor_type),
    .name = "sink",
    .state_bytes = sizeof(struct sink),
    .start = start_sink,
    .receive = receive_sink,
    .stop = stop_sink,
};

static troupe_status
spawn_sink(uint32_t name, troupe_ref *ref)
{
    troupe_spawn_options options = {
        .size = sizeof options, .arg = &name, .arg_bytes = sizeof name};

    return troupe_system_spawn(rt, &sink_type, &options, ref);
}

/* --- foreign threads ------------------------------------------------------ */

static void
post_note(uint32_t sender, troupe_ref whom, uint32_t name)
{
    struct note note = {
        .sender = sender, .number = ledger.sent[sender]++, .to = name};
    troupe_status status = troupe_post(rt, whom, &note_type, &note);

    model_note("%u.%u: %s", sender, note.number, troupe_status_name(status));
    MODEL_CHECK(status == TROUPE_OK || status == TROUPE_E_DEAD ||
                    status == TROUPE_E_CLOSED || status == TROUPE_E_FULL,
        "post: %s", troupe_status_name(status));
    if (status == TROUPE_OK) {
        ledger.accepted[sender]++;
    }
}

static void *
with(uint32_t number, uint32_t count)
{
    return (void *)(uintptr_t)((number << 8) | count);
}

/* Posts to `actor`, which was there when the thread began. */
static void
post_some(void *user)
{
    uint32_t sender = (uint32_t)((uintptr_t)user >> 8);
    uint32_t count = (uint32_t)(uintptr_t)user & 0xff;
    troupe_ref whom = actor;

    for (uint32_t i = 0; i < count; i++) {
        post_note(sender, whom, 1);
    }
}

/* OK too when it is just ending and its cell goes to somebody else. */
static void
stop_now(void *user)
{
    troupe_status status = troupe_post_stop_now(rt, actor);

    (void)user;
    MODEL_CHECK(status == TROUPE_OK, "stop: %s", troupe_status_name(status));
}

/* Again when it has gone: nothing may happen. */
static void
stop_twice_now(void *user)
{
    stop_now(user);
    while (troupe_depth(rt, actor) != TROUPE_DEPTH_DEAD) {
        model_relax(MODEL_AT("await_end"));
    }
    stop_now(user);
}

static void
stop_in_line(void *user)
{
    (void)user;
    MODEL_ASSERT(troupe_post_stop(rt, actor) == TROUPE_OK);
}

/* Of a driven system. */
static void
run_turns(uint32_t turns)
{
    troupe_run run;

    MODEL_ASSERT(troupe_system_run(rt, turns, &run) == TROUPE_OK);
}

static void
run_three(void (*first)(void *), void *user_first, void (*second)(void *),
    void *user_second, void (*third)(void *), void *user_third)
{
    int a = model_spawn("a", first, user_first);
    int b = model_spawn("b", second, user_second);
    int c = third != NULL ? model_spawn("c", third, user_third) : -1;

    model_join(a);
    model_join(b);
    if (c >= 0) {
        model_join(c);
    }
}

/* --- messages and stops --------------------------------------------------- */

static void
post(void)
{
    begin(2);
    MODEL_ASSERT(spawn_sink(1, &actor) == TROUPE_OK);
    run_three(post_some, with(0, 2), post_some, with(1, 2), NULL, NULL);
    model_await_sleep();
    check_messages();
    MODEL_ASSERT(ledger.handled[0] == 2 && ledger.handled[1] == 2);
    check_books();
    finish();
}

static void
post_and_await(void *user)
{
    uint32_t sender = (uint32_t)((uintptr_t)user >> 8);

    post_some(user);
    MODEL_ASSERT(troupe_system_await_idle(rt, TROUPE_FOREVER) == TROUPE_OK);
    MODEL_CHECK(ledger.handled[sender] == ledger.accepted[sender],
        "idle, and %u of %u handled", ledger.handled[sender],
        ledger.accepted[sender]);
}

static troupe_ref other;

static void
post_to_other(void *user)
{
    (void)user;
    post_note(1, other, 1);
}

/*
 * Whoever awaits an idle system sees that its own messages were handled. Not
 * so, at present, if they wait behind the message of a thread that has not
 * submitted the actor yet: so the other thread posts to another actor.
 */
static void
await_idle(void)
{
    begin(1 + model_choose(2));
    MODEL_ASSERT(spawn_sink(1, &actor) == TROUPE_OK);
    MODEL_ASSERT(spawn_sink(1, &other) == TROUPE_OK);
    run_three(post_and_await, with(0, 1), post_to_other, NULL, NULL, NULL);
    model_await_sleep(); /* the other post may have come after the wait */
    check_books();
    finish();
}

/* A stop against posts, by K or in line; the actor grows on the way. */
static void
stop_one(void)
{
    begin(1);
    MODEL_ASSERT(spawn_sink(1, &actor) == TROUPE_OK);
    run_three(post_some, with(0, 3), post_some, with(1, 1),
        model_choose(2) != 0 ? stop_now : stop_in_line, NULL);
    model_await_sleep();
    MODEL_ASSERT(ledger.stopped == ledger.started);
    MODEL_ASSERT(troupe_depth(rt, actor) == TROUPE_DEPTH_DEAD);
    check_messages();
    check_books();
    finish();
}

/* Two stops and a post: one of them ends the actor, once. */
static void
stop_twice(void)
{
    begin(1);
    MODEL_ASSERT(spawn_sink(1, &actor) == TROUPE_OK);
    run_three(stop_now, NULL, stop_now, NULL, post_some, with(0, 2));
    model_await_sleep();
    MODEL_ASSERT(ledger.stopped == ledger.started && ledger.started <= 1);
    MODEL_ASSERT(troupe_depth(rt, actor) == TROUPE_DEPTH_DEAD);
    check_messages();
    finish();
}

/* --- a cell that is used again -------------------------------------------- */

/*
 * The worker runs turns until the actor has gone; then the manager, on the same
 * worker, makes another one: in the cell that was given back last. It is idle
 * for a while before it gets a message of its own.
 */
static troupe_ref manager;
static troupe_ref second;

static void
run_and_replace(void *user)
{
    (void)user;
    while (troupe_depth(rt, actor) != TROUPE_DEPTH_DEAD) {
        model_poll(troupe_system_fd(rt));
        run_turns(0);
    }
    post_note(1, manager, 1);
    run_turns(0);
    post_note(1, manager, 1);
    run_turns(0);
}

static troupe_verdict
receive_manager(troupe_self *self, void *state, const troupe_msg *msg)
{
    const uint32_t name = 2;
    const troupe_spawn_options options = {
        .size = sizeof options, .arg = &name, .arg_bytes = sizeof name};

    (void)state;
    take(troupe_payload(msg, struct note), 1);
    if (!troupe_ref_is_none(second)) {
        ledger.accepted[2]++;
        troupe_tell(
            self, second, &note_type, &(struct note){.sender = 2, .to = 2});
        return TROUPE_CONTINUE;
    }
    MODEL_ASSERT(
        troupe_spawn(self, &sink_type, &options, &second) == TROUPE_OK);
    MODEL_CHECK(second.index == actor.index && !troupe_ref_equal(second, actor),
        "cell %u.%x, not %u", second.index, second.generation, actor.index);
    return TROUPE_CONTINUE;
}

static const troupe_actor_type manager_type = {
    .size = sizeof(troupe_actor_type),
    .name = "manager",
    .receive = receive_manager,
};

/* What is meant for the first actor, posts and a stop, spares the second. */
static void
reuse(void)
{
    begin(0);
    MODEL_ASSERT(
        troupe_system_spawn(rt, &manager_type, NULL, &manager) == TROUPE_OK);
    MODEL_ASSERT(spawn_sink(1, &actor) == TROUPE_OK);
    model_name(&trp_cell_at(trp_core_of(rt), actor.index)->ring.word, "word");
    model_name(
        &trp_cell_at(trp_core_of(rt), actor.index)->generation, "generation");
    second = TROUPE_NONE;
    run_turns(0);
    run_three(
        run_and_replace, NULL, post_some, with(0, 2), stop_twice_now, NULL);
    MODEL_CHECK(ledger.handled[2] == 1, "the wrong one was stopped");
    check_books();
    finish();
}

static troupe_port *heir;

static troupe_verdict
receive_porter(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)state;
    take(troupe_payload(msg, struct note), 1);
    if (heir == NULL) {
        MODEL_ASSERT(troupe_port_open(troupe_self_system(self), NULL, &heir) ==
                     TROUPE_OK);
        MODEL_ASSERT(troupe_port_ref(heir).index == actor.index);
    }
    return TROUPE_CONTINUE;
}

static const troupe_actor_type porter_type = {
    .size = sizeof(troupe_actor_type),
    .name = "porter",
    .receive = receive_porter,
};

/*
 * The cell goes to a port. To stop a port is a mistake; to stop an actor that
 * has just gone is none.
 */
static void
port_reuse(void)
{
    begin(0);
    heir = NULL;
    MODEL_ASSERT(
        troupe_system_spawn(rt, &porter_type, NULL, &manager) == TROUPE_OK);
    MODEL_ASSERT(spawn_sink(1, &actor) == TROUPE_OK);
    run_turns(0);
    run_three(run_and_replace, NULL, stop_now, NULL, stop_twice_now, NULL);
    MODEL_ASSERT(troupe_post_stop(rt, troupe_port_ref(heir)) == TROUPE_E_STATE);
    troupe_port_close(heir);
    finish();
}

/* --- mailboxes with rules ------------------------------------------------- */

static void
shed(troupe_drop_reason reason, const troupe_msg *msg, void *user)
{
    const struct note *note = troupe_payload(msg, struct note);

    (void)reason;
    (void)user;
    model_note("sheds %u.%u", note->sender, note->number);
    ledger.shed[note->sender]++;
}

static double
rank_note(const troupe_msg *msg, void *user)
{
    (void)user;
    (void)msg;
    return 0;
}

/* Of the user's own: a queue of `capacity`, no undroppable ones. */
static struct line {
    troupe_msg *msg[2];
    uint32_t capacity, count;
} the_line;

static void *
line_open(void *user)
{
    return user;
}

static void
line_close(void *box)
{
    MODEL_ASSERT(((struct line *)box)->count == 0);
}

static troupe_status
line_enqueue(void *box, troupe_msg *msg, troupe_msg **evicted)
{
    struct line *into = box;

    (void)evicted;
    if (into->count == into->capacity) {
        return TROUPE_E_FULL;
    }
    into->msg[into->count++] = msg;
    return TROUPE_OK;
}

static troupe_status
line_enqueue_undroppable(void *box, troupe_msg *msg)
{
    return line_enqueue(box, msg, NULL);
}

static troupe_msg *
line_dequeue(void *box)
{
    struct line *from = box;
    troupe_msg *msg = from->count != 0 ? from->msg[0] : NULL;

    from->msg[0] = from->msg[1];
    from->count -= msg != NULL ? 1 : 0;
    return msg;
}

static size_t
line_length(const void *box)
{
    return ((const struct line *)box)->count;
}

static const troupe_custom_mailbox line_mailbox = {
    .size = sizeof(troupe_custom_mailbox),
    .name = "line",
    .open = line_open,
    .close = line_close,
    .enqueue = line_enqueue,
    .enqueue_undroppable = line_enqueue_undroppable,
    .prepend = line_enqueue,
    .dequeue = line_dequeue,
    .length = line_length};

enum { FORMS = 5, FORM_CUSTOM = 4 };

static troupe_status
spawn_ruled(uint32_t form, uint32_t capacity)
{
    const uint32_t name = 1;
    troupe_mailbox_options mailbox = {.size = sizeof mailbox,
        .capacity = form == FORM_CUSTOM ? 0 : capacity,
        .on_drop = shed,
        .overflow = form == 1   ? TROUPE_OVERFLOW_DROP_NEW
                    : form == 2 ? TROUPE_OVERFLOW_DROP_HEAD
                    : form == 3 ? TROUPE_OVERFLOW_DROP_LOWEST
                                : TROUPE_OVERFLOW_REJECT,
        .priority = form == 3 ? rank_note : NULL,
        .custom = form == FORM_CUSTOM ? &line_mailbox : NULL,
        .custom_user = form == FORM_CUSTOM ? &the_line : NULL};
    troupe_spawn_options options = {.size = sizeof options,
        .arg = &name,
        .arg_bytes = sizeof name,
        .mailbox = &mailbox};

    the_line = (struct line){.capacity = capacity};
    return troupe_system_spawn(rt, &sink_type, &options, &actor);
}

/* Each kind against two senders: nobody waits for ever, nothing is lost. */
static void
ruled_post(void)
{
    uint32_t form = model_choose(FORMS);

    begin(1);
    MODEL_ASSERT(spawn_ruled(form, 2) == TROUPE_OK);
    run_three(post_some, with(0, 3), post_some, with(1, 2), NULL, NULL);
    model_await_sleep();
    check_messages();
    MODEL_ASSERT(troupe_depth(rt, actor) == 0);
    check_books();
    finish();
}

/* The same against a stop: what comes late is refused, or a dead letter. */
static void
ruled_stop(void)
{
    uint32_t form = model_choose(FORMS);

    begin(1);
    MODEL_ASSERT(spawn_ruled(form, 1 + model_choose(2)) == TROUPE_OK);
    run_three(post_some, with(0, 3), post_some, with(1, 1),
        model_choose(2) != 0 ? stop_now : stop_in_line, NULL);
    model_await_sleep();
    MODEL_ASSERT(troupe_depth(rt, actor) == TROUPE_DEPTH_DEAD);
    check_messages();
    check_books();
    finish();
}

/* --- one that waits for a token ------------------------------------------- */

static troupe_status
spawn_throttled(uint32_t name, troupe_ref *ref)
{
    const troupe_throttle_options throttle = {
        .size = sizeof throttle, .per_second = 1e-9};
    troupe_spawn_options options = {.size = sizeof options,
        .arg = &name,
        .arg_bytes = sizeof name,
        .throttle = &throttle};

    return troupe_system_spawn(rt, &sink_type, &options, ref);
}

/* The next one is likely to get the rules of the one that has gone. */
static void
replace_throttled(void *user)
{
    (void)user;
    while (troupe_depth(rt, actor) != TROUPE_DEPTH_DEAD) {
        model_relax(MODEL_AT("await_end"));
    }
    MODEL_ASSERT(spawn_throttled(2, &second) == TROUPE_OK);
    post_note(2, second, 2);
    post_note(2, second, 2);
}

/* Stops that are late find the rules of a stranger: it goes on waiting. */
static void
throttle_reuse(void)
{
    begin(1);
    MODEL_ASSERT(spawn_throttled(1, &actor) == TROUPE_OK);
    post_note(0, actor, 1);
    post_note(0, actor, 1);
    model_await_sleep();
    run_three(stop_now, NULL, stop_now, NULL, replace_throttled, NULL);
    model_await_sleep();
    MODEL_CHECK(ledger.handled[2] == 1, "%u handled", ledger.handled[2]);
    actor = second;
    stop_now(NULL);
    model_await_sleep();
    MODEL_ASSERT(troupe_depth(rt, second) == TROUPE_DEPTH_DEAD);
    check_messages();
    check_books();
    finish();
}

static bool is_shut;

static troupe_verdict
receive_stasher(troupe_self *self, void *state, const troupe_msg *msg)
{
    const struct note *note = troupe_payload(msg, struct note);

    (void)state;
    if (is_shut && note->sender == 0) {
        MODEL_ASSERT(troupe_stash(self) == TROUPE_OK);
        return TROUPE_CONTINUE;
    }
    ledger.handled[note->sender]++;
    if (is_shut) { /* the word that opens it */
        troupe_status status = troupe_unstash(self, 0);

        is_shut = false;
        MODEL_CHECK(status == TROUPE_OK || status == TROUPE_E_FULL,
            "unstash: %s", troupe_status_name(status));
    }
    return TROUPE_CONTINUE;
}

static const troupe_actor_type stasher_type = {
    .size = sizeof(troupe_actor_type),
    .name = "stasher",
    .receive = receive_stasher,
};

static void
run_one_turn(void *user)
{
    (void)user;
    run_turns(1);
}

/* What is put back and what comes in meanwhile: together no more than fit. */
static void
put_back(void)
{
    static const troupe_overflow policies[] = {TROUPE_OVERFLOW_REJECT,
        TROUPE_OVERFLOW_DROP_NEW, TROUPE_OVERFLOW_DROP_HEAD};
    troupe_mailbox_options mailbox = {
        .size = sizeof mailbox, .capacity = 3, .on_drop = shed};
    const troupe_spawn_options options = {
        .size = sizeof options, .mailbox = &mailbox, .throughput = 1};
    uint32_t depth;

    mailbox.overflow = policies[model_choose(3)];
    begin(0);
    is_shut = true;
    MODEL_ASSERT(
        troupe_system_spawn(rt, &stasher_type, &options, &actor) == TROUPE_OK);
    post_note(0, actor, 1);
    post_note(0, actor, 1);
    run_turns(0);
    post_note(1, actor, 1); /* opens it */
    run_three(run_one_turn, NULL, post_some, with(2, 2), post_some, with(3, 2));
    depth = troupe_depth(rt, actor);
    MODEL_CHECK(depth <= 3, "%u wait", depth);
    run_turns(0);
    finish();
}

/* --- trees ---------------------------------------------------------------- */

static troupe_status
start_branch(troupe_self *self, void *state, const void *arg)
{
    (void)self;
    (void)state;
    (void)arg;
    ledger.started++;
    return TROUPE_OK;
}

static void
stop_branch(troupe_self *self, void *state, const troupe_exit *why)
{
    (void)self;
    (void)state;
    (void)why;
    ledger.stopped++;
}

static troupe_verdict
receive_branch(troupe_self *self, void *state, const troupe_msg *msg)
{
    const struct note *note = troupe_payload(msg, struct note);
    const uint32_t name = 7;
    troupe_spawn_options options = {
        .size = sizeof options, .arg = &name, .arg_bytes = sizeof name};
    troupe_ref child;

    (void)state;
    ledger.handled[note->sender]++;
    MODEL_ASSERT(troupe_spawn(self, &sink_type, &options, &child) == TROUPE_OK);
    return TROUPE_CONTINUE;
}

static const troupe_actor_type branch_type = {
    .size = sizeof(troupe_actor_type),
    .name = "branch",
    .start = start_branch,
    .receive = receive_branch,
    .stop = stop_branch,
};

/* A parent that makes children, stopped meanwhile: they go first. */
static void
tree(void)
{
    begin(2);
    MODEL_ASSERT(
        troupe_system_spawn(rt, &branch_type, NULL, &actor) == TROUPE_OK);
    run_three(post_some, with(0, 2), stop_now, NULL, NULL, NULL);
    model_await_sleep();
    MODEL_CHECK(troupe_depth(rt, actor) == TROUPE_DEPTH_DEAD,
        "the parent waits for children for ever");
    MODEL_CHECK(ledger.started == ledger.stopped, "%u started, %u stopped",
        ledger.started, ledger.stopped);
    check_messages();
    finish();
}

/* --- names ---------------------------------------------------------------- */

static bool
spawn_named(troupe_ref *ref)
{
    const uint32_t name = 4;
    const troupe_spawn_options options = {.size = sizeof options,
        .name = "one",
        .arg = &name,
        .arg_bytes = sizeof name};
    troupe_status status = troupe_system_spawn(rt, &sink_type, &options, ref);

    MODEL_CHECK(status == TROUPE_OK || status == TROUPE_E_EXISTS, "spawn: %s",
        troupe_status_name(status));
    return status == TROUPE_OK;
}

static void
spawn_and_stop(void *user)
{
    troupe_ref ref;

    (void)user;
    if (spawn_named(&ref)) {
        MODEL_ASSERT(troupe_post_stop_now(rt, ref) == TROUPE_OK);
    }
}

static void
spawn_and_post(void *user)
{
    troupe_ref ref;

    (void)user;
    if (spawn_named(&ref)) {
        post_note(1, ref, 4);
    }
}

/* A path is the actor's, or nobody's any more. */
static void
look_up(void *user)
{
    char text[64];
    troupe_ref ref;
    troupe_status status = troupe_lookup(rt, "/user/one", &ref);
    size_t length;

    (void)user;
    if (status != TROUPE_OK) {
        MODEL_CHECK(status == TROUPE_E_MISSING, "lookup: %s",
            troupe_status_name(status));
        return;
    }
    length = troupe_path(rt, ref, text, sizeof text);
    MODEL_CHECK(
        length == strlen(text) &&
            (length == 0 || strcmp(text, "troupe://troupe/user/one") == 0),
        "path: %s", text);
    post_note(2, ref, 4);
}

/* One name, two who want it, one who looks: one has it at a time. */
static void
names(void)
{
    begin(1);
    ledger.at_most = 1;
    run_three(spawn_and_stop, NULL, spawn_and_post, NULL, look_up, NULL);
    model_await_sleep();
    check_messages();
    check_books();
    finish();
}

/*
 * "one" stops, and its cell goes to "two", who has a child. A ref that was
 * found under the name of one never becomes that of two, and one has no child.
 */
static troupe_status
start_two(troupe_self *self, void *state, const void *arg)
{
    const uint32_t name = 5;
    const troupe_spawn_options options = {.size = sizeof options,
        .name = "child",
        .arg = &name,
        .arg_bytes = sizeof name};
    troupe_ref child;

    (void)state;
    (void)arg;
    return troupe_spawn(self, &sink_type, &options, &child);
}

static const troupe_actor_type two_type = {
    .size = sizeof(troupe_actor_type),
    .name = "two",
    .start = start_two,
    .receive = receive_branch,
};

static troupe_verdict
receive_namer(troupe_self *self, void *state, const troupe_msg *msg)
{
    const troupe_spawn_options options = {
        .size = sizeof options, .name = "two"};

    (void)state;
    take(troupe_payload(msg, struct note), 1);
    if (troupe_ref_is_none(second)) {
        MODEL_ASSERT(
            troupe_spawn(self, &two_type, &options, &second) == TROUPE_OK);
        MODEL_CHECK(second.index == actor.index, "cell %u, not %u",
            second.index, actor.index);
    }
    return TROUPE_CONTINUE;
}

static const troupe_actor_type namer_type = {
    .size = sizeof(troupe_actor_type),
    .name = "namer",
    .receive = receive_namer,
};

static void
look_up_one(void *user)
{
    troupe_ref *found = user;
    troupe_ref child;

    (void)!troupe_lookup(rt, "/user/one", found);
    MODEL_CHECK(
        troupe_lookup(rt, "/user/one/child", &child) == TROUPE_E_MISSING,
        "a child of two was found below one");
}

static void
names_reuse(void)
{
    troupe_ref found = TROUPE_NONE;
    char text[64];

    begin(0);
    MODEL_ASSERT(
        troupe_system_spawn(rt, &namer_type, NULL, &manager) == TROUPE_OK);
    MODEL_ASSERT(spawn_named(&actor));
    model_name(
        &trp_cell_at(trp_core_of(rt), actor.index)->generation, "generation");
    second = TROUPE_NONE;
    run_turns(0);
    run_three(run_and_replace, NULL, look_up_one, &found, stop_twice_now, NULL);
    MODEL_CHECK(!troupe_ref_equal(found, second) &&
                    troupe_path(rt, found, text, sizeof text) == 0,
        "one was found to be two");
    finish();
}

/* --- the end of a system -------------------------------------------------- */

static void
spawn_late(void *user)
{
    (void)user;
    for (uint32_t i = 0; i < 2; i++) {
        troupe_ref ref;
        troupe_status status = spawn_sink(3, &ref);

        MODEL_CHECK(status == TROUPE_OK || status == TROUPE_E_CLOSED,
            "spawn: %s", troupe_status_name(status));
        if (status == TROUPE_OK) {
            post_note(i, ref, 3);
        }
    }
}

static void
request_stop(void *user)
{
    (void)user;
    troupe_system_request_stop(rt);
}

/* Actors are made and sent to while the system is told to stop. */
static void
stop_system(void)
{
    begin(1);
    MODEL_ASSERT(spawn_sink(1, &actor) == TROUPE_OK);
    run_three(spawn_late, NULL, request_stop, NULL, NULL, NULL);
    finish();
}

/* main() waits until another thread requests the stop, then destroys. */
static void
stop_from_outside(void)
{
    int a;

    begin(1);
    MODEL_ASSERT(spawn_sink(1, &actor) == TROUPE_OK);
    a = model_spawn("a", request_stop, NULL);
    MODEL_ASSERT(troupe_system_wait(rt, TROUPE_FOREVER) == TROUPE_OK);
    finish();
    model_join(a);
    model_heap_check_freed();
}

/* --- ports ---------------------------------------------------------------- */

static troupe_port *port;

static uint32_t
take_all_of_port(void)
{
    const troupe_msg *msg;
    uint32_t count = 0;

    while ((msg = troupe_port_next(port)) != NULL) {
        take(troupe_payload(msg, struct note), 1);
        count++;
    }
    return count;
}

static void
own_port(void *user)
{
    uint32_t left = (uint32_t)(uintptr_t)user;

    while (left > 0) {
        model_poll(troupe_port_fd(port));
        left -= take_all_of_port();
    }
}

static void
open_port(void)
{
    begin(0);
    MODEL_ASSERT(troupe_port_open(rt, NULL, &port) == TROUPE_OK);
    actor = troupe_port_ref(port);
}

/* The owner's loop sleeps in poll only while the port is empty. */
static void
port_poll(void)
{
    open_port();
    run_three(post_some, with(0, 2), post_some, with(1, 3), own_port,
        (void *)(uintptr_t)5);
    check_messages();
    /* Once more for what was taken already, and then not again. */
    MODEL_ASSERT(take_all_of_port() == 0);
    MODEL_ASSERT(!model_is_readable(troupe_port_fd(port)));
    troupe_port_close(port);
    finish();
}

/* Takes one message at a time: what is left keeps the descriptor readable. */
static void
own_port_slowly(void *user)
{
    const troupe_msg *msg;

    for (uint32_t left = (uint32_t)(uintptr_t)user; left > 0;) {
        model_poll(troupe_port_fd(port));
        msg = troupe_port_next(port);
        if (msg != NULL) {
            take(troupe_payload(msg, struct note), 1);
            left--;
        }
    }
}

static void
port_one_by_one(void)
{
    open_port();
    run_three(post_some, with(0, 2), post_some, with(1, 1), own_port_slowly,
        (void *)(uintptr_t)3);
    check_messages();
    troupe_port_close(port);
    finish();
}

static void
close_port(void *user)
{
    (void)user;
    take_all_of_port();
    troupe_port_close(port);
}

/* Closed while others send: sent, and then handled or dead; or refused. */
static void
port_close(void)
{
    open_port();
    run_three(post_some, with(0, 2), post_some, with(1, 2), close_port, NULL);
    check_messages();
    finish();
}

static uint32_t notices;

static void
watch_and_poll(void *user)
{
    const troupe_msg *msg;

    (void)user;
    MODEL_ASSERT(troupe_port_watch(port, actor) == TROUPE_OK);
    while (notices == 0) {
        model_poll(troupe_port_fd(port));
        while ((msg = troupe_port_next(port)) != NULL) {
            MODEL_ASSERT(troupe_msg_tag(msg) == TROUPE_TAG_DOWN &&
                         troupe_ref_equal(troupe_down(msg)->actor, actor));
            notices++;
        }
    }
}

/* Watched while it ends: one notice comes, before or after. */
static void
watch(void)
{
    begin(1);
    notices = 0;
    MODEL_ASSERT(troupe_port_open(rt, NULL, &port) == TROUPE_OK);
    MODEL_ASSERT(spawn_sink(1, &actor) == TROUPE_OK);
    run_three(watch_and_poll, NULL, stop_now, NULL, NULL, NULL);
    model_await_sleep();
    MODEL_ASSERT(troupe_port_next(port) == NULL);
    MODEL_CHECK(notices == 1, "%u notices", notices);
    troupe_port_close(port);
    finish();
}

/* --- actors that watch ---------------------------------------------------- */

static troupe_ref watcher;
static uint32_t notices_of_other;
static bool has_switched;

/* Watches `actor`; with the second note that no more, but `other`. */
static troupe_verdict
receive_watcher(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)state;
    if (troupe_msg_tag(msg) == TROUPE_TAG_DOWN) {
        troupe_ref who = troupe_down(msg)->actor;
        bool is_other = troupe_ref_equal(who, other);

        MODEL_CHECK(is_other || troupe_ref_equal(who, actor), "a stranger");
        MODEL_CHECK(is_other || !has_switched, "told after unwatch");
        *(is_other ? &notices_of_other : &notices) += 1;
        return TROUPE_CONTINUE;
    }
    take(troupe_payload(msg, struct note), 1);
    if (ledger.handled[0] == 1) {
        MODEL_ASSERT(troupe_watch(self, actor) == TROUPE_OK);
        return TROUPE_CONTINUE;
    }
    MODEL_ASSERT(troupe_unwatch(self, actor) == TROUPE_OK);
    has_switched = true;
    MODEL_ASSERT(troupe_watch(self, other) == TROUPE_OK);
    return TROUPE_CONTINUE;
}

static const troupe_actor_type watcher_type = {
    .size = sizeof(troupe_actor_type),
    .name = "watcher",
    .receive = receive_watcher,
};

static void
switch_over(void *user)
{
    (void)user;
    post_note(0, watcher, 1);
}

static void
stop_other(void *user)
{
    (void)user;
    MODEL_ASSERT(troupe_post_stop_now(rt, other) == TROUPE_OK);
}

static void
stop_watcher(void *user)
{
    (void)user;
    MODEL_ASSERT(troupe_post_stop_now(rt, watcher) == TROUPE_OK);
}

static void
begin_watch(void)
{
    begin(2);
    notices = notices_of_other = 0;
    has_switched = false;
    MODEL_ASSERT(spawn_sink(1, &actor) == TROUPE_OK);
    MODEL_ASSERT(spawn_sink(1, &other) == TROUPE_OK);
    MODEL_ASSERT(
        troupe_system_spawn(rt, &watcher_type, NULL, &watcher) == TROUPE_OK);
    post_note(0, watcher, 1);
    model_await_sleep();
}

/* One unwatches while the one it watched and the one it watches next end. */
static void
unwatch(void)
{
    begin_watch();
    run_three(switch_over, NULL, stop_now, NULL, stop_other, NULL);
    model_await_sleep();
    MODEL_CHECK(notices_of_other == 1, "told %u times", notices_of_other);
    MODEL_CHECK(notices <= 1, "told %u times", notices);
    check_books();
    finish();
}

/* Both end at once: the list of one is in the table of the other. */
static void
watch_and_end(void)
{
    begin_watch();
    run_three(stop_watcher, NULL, stop_now, NULL, switch_over, NULL);
    model_await_sleep();
    MODEL_CHECK(notices <= 1, "told %u times", notices);
    check_books();
    finish();
}

/* A foreign thread waits for the end of an actor, through a port of its own. */
static void
stop_and_wait(void *user)
{
    (void)user;
    MODEL_ASSERT(troupe_stop_wait(rt, &actor, 1, TROUPE_FOREVER) == TROUPE_OK);
    MODEL_ASSERT(troupe_depth(rt, actor) == TROUPE_DEPTH_DEAD);
    MODEL_ASSERT(ledger.stopped == ledger.started);
}

static void
stop_wait(void)
{
    begin(1);
    MODEL_ASSERT(spawn_sink(1, &actor) == TROUPE_OK);
    run_three(post_some, with(0, 2), stop_and_wait, NULL, NULL, NULL);
    check_messages();
    finish();
}

/* --- one payload, several readers ----------------------------------------- */

struct sheet {
    uint64_t text[8];
};

static uint32_t sheets_read;
static uint32_t sheets_dropped;

static void
drop_sheet(void *payload, size_t bytes)
{
    (void)bytes;
    sheets_dropped++;
    memset(payload, 0xee, sizeof(struct sheet));
}

TROUPE_MSG_TYPE_WITH(
    sheet_type, struct sheet, 9, TROUPE_MSG_SHARED, drop_sheet);

static troupe_ref readers[2];

static void
check_sheet(const struct sheet *sheet)
{
    for (uint64_t i = 0; i < 8; i++) {
        MODEL_CHECK(sheet->text[i] == i, "read after it was dropped");
    }
}

/* The first reader sends it on to the second one. */
static troupe_verdict
receive_sheet(troupe_self *self, void *state, const troupe_msg *msg)
{
    const struct sheet *sheet = troupe_payload(msg, struct sheet);

    (void)state;
    check_sheet(sheet);
    if (troupe_ref_equal(troupe_self_ref(self), readers[0])) {
        troupe_tell(self, readers[1], &sheet_type, sheet);
    }
    model_step("reads");
    check_sheet(sheet);
    sheets_read++;
    return TROUPE_CONTINUE;
}

static troupe_verdict
receive_fan(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct sheet sheet;

    (void)state;
    take(troupe_payload(msg, struct note), 1);
    for (uint64_t i = 0; i < 8; i++) {
        sheet.text[i] = i;
    }
    MODEL_ASSERT(troupe_tell_many(self, readers, 2, &sheet_type, &sheet) == 2);
    return TROUPE_CONTINUE;
}

static const troupe_actor_type reader_type = {
    .size = sizeof(troupe_actor_type),
    .name = "reader",
    .receive = receive_sheet,
};

static const troupe_actor_type fan_type = {
    .size = sizeof(troupe_actor_type),
    .name = "fan",
    .receive = receive_fan,
};

static void
spawn_readers(void)
{
    for (uint32_t i = 0; i < 2; i++) {
        MODEL_ASSERT(troupe_system_spawn(rt, &reader_type, NULL, &readers[i]) ==
                     TROUPE_OK);
    }
    MODEL_ASSERT(troupe_system_spawn(rt, &fan_type, NULL, &actor) == TROUPE_OK);
}

/* Dropped once, after the last of three reads on two workers. */
static void
shared(void)
{
    begin(2);
    sheets_read = sheets_dropped = 0;
    spawn_readers();
    post_some(with(0, 1));
    model_await_sleep();
    MODEL_CHECK(sheets_read == 3, "%u of 3 reads", sheets_read);
    MODEL_CHECK(sheets_dropped == 1, "dropped %u times", sheets_dropped);
    check_books();
    finish();
}

/* --- requests to a busy actor --------------------------------------------- */

/* Sends to itself for ever, with a long queue: its ring is a large one. */
static uint32_t handled_since_request;
static bool is_requested;
static uint32_t barrier;

static troupe_verdict
receive_busy(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)state;
    (void)msg;
    if (is_requested) {
        handled_since_request++;
        MODEL_CHECK(handled_since_request <= 3,
            "it was told to stop now, and handled %u messages since",
            handled_since_request);
    }
    troupe_tell(self, troupe_self_ref(self), &note_type,
        &(struct note){.sender = 3, .to = 1});
    return TROUPE_CONTINUE;
}

static const troupe_actor_type busy_type = {
    .size = sizeof(troupe_actor_type),
    .name = "busy",
    .start = start_branch,
    .receive = receive_busy,
    .stop = stop_branch,
};

static void
host(void *user)
{
    (void)user;
    while (troupe_depth(rt, actor) != TROUPE_DEPTH_DEAD) {
        troupe_run run;

        MODEL_ASSERT(troupe_system_run(rt, 1, &run) == TROUPE_OK);
        model_relax(MODEL_AT("host"));
    }
}

/* A look that was meant for who had the cell before. */
static void
stray_look(void *user)
{
    struct trp_core *core = trp_core_of(rt);

    (void)user;
    trp_store_release(
        &trp_cold_of(core, trp_cell_at(core, actor.index))->look, 1);
}

static void
request(void *user)
{
    (void)user;
    MODEL_ASSERT(troupe_post_stop_now(rt, actor) == TROUPE_OK);
    trp_add_relaxed(&barrier, 0); /* what it stored can be seen now */
    is_requested = true;
}

static void
stop_busy(void)
{
    const troupe_spawn_options options = {
        .size = sizeof options, .throughput = 10};

    begin(0);
    handled_since_request = 0;
    is_requested = false;
    MODEL_ASSERT(
        troupe_system_spawn(rt, &busy_type, &options, &actor) == TROUPE_OK);
    for (uint32_t i = 0; i < 70; i++) {
        post_note(0, actor, 1);
    }
    run_turns(8); /* through the small segments */
    run_three(host, NULL, request, NULL, stray_look, NULL);
    MODEL_ASSERT(troupe_system_stop(rt) == TROUPE_OK);
    check_books();
    MODEL_ASSERT(troupe_system_destroy(rt) == TROUPE_OK);
}

/* --- later ---------------------------------------------------------------- */

static troupe_delayed first_delayed;
static uint32_t tries; /* to cancel it */

static troupe_delayed
post_later(uint32_t sender)
{
    struct note note = {.sender = sender, .to = 1};
    troupe_delayed delayed = {0};

    MODEL_ASSERT(troupe_post_after(rt, actor, &note_type, &note,
                     model_choose(2), &delayed) == TROUPE_OK);
    ledger.accepted[sender]++;
    return delayed;
}

/* The second one may get the block of the first. */
static void
post_two_later(void *user)
{
    (void)user;
    first_delayed = post_later(0);
    while (tries == 0) {
        model_relax(MODEL_AT("await_try"));
    }
    (void)post_later(1);
    tries++;
}

static void
cancel_first(void *user)
{
    (void)user;
    while (first_delayed.id == 0) {
        model_relax(MODEL_AT("await_first"));
    }
    for (uint32_t i = 0; i < 2; i++) {
        if (troupe_delayed_cancel(rt, first_delayed)) {
            ledger.shed[0]++;
        }
        tries += i == 0;
        while (tries == 1) {
            model_relax(MODEL_AT("await_second"));
        }
    }
}

/* One is sent or cancelled, and an old id is not that of another one. */
static void
delayed(void)
{
    begin(1 + model_choose(2));
    first_delayed.id = 0;
    tries = 0;
    MODEL_ASSERT(spawn_sink(1, &actor) == TROUPE_OK);
    run_three(post_two_later, NULL, cancel_first, NULL, NULL, NULL);
    model_await_rest();
    check_messages();
    check_drops();
    MODEL_CHECK(ledger.handled[1] == 1, "the second one has gone");
    check_books();
    finish();
}

/* --- timers --------------------------------------------------------------- */

static uint32_t ticks_made;
static uint32_t ticks_dropped;

static void
drop_tick(void *payload, size_t bytes)
{
    (void)payload;
    (void)bytes;
    ticks_dropped++;
}

TROUPE_MSG_TYPE_WITH(tick_type, uint32_t, 2, 0, drop_tick);

struct timed {
    uint32_t number; /* of the last start */
    bool is_active;
};

static troupe_status
start_tick(troupe_self *self, struct timed *timed)
{
    timed->number = ++ticks_made;
    timed->is_active = true;
    return troupe_timer_once(
        self, 1, &tick_type, &timed->number, model_choose(3));
}

static troupe_status
start_timed(troupe_self *self, void *state, const void *arg)
{
    (void)arg;
    ledger.started++;
    MODEL_ASSERT(troupe_receive_timeout(self, 1) == TROUPE_OK);
    return start_tick(self, state);
}

static troupe_verdict
receive_timed(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct timed *timed = state;

    switch (troupe_msg_tag(msg)) {
    case TROUPE_TAG_IDLE:
        MODEL_ASSERT(troupe_receive_timeout(self, TROUPE_NEVER) == TROUPE_OK);
        break;
    case 2:
        MODEL_CHECK(
            timed->is_active && timed->number == *troupe_payload(msg, uint32_t),
            "tick %u, and %u is %s", *troupe_payload(msg, uint32_t),
            timed->number, timed->is_active ? "active" : "not");
        timed->is_active = false;
        break;
    default:
        take(troupe_payload(msg, struct note), 1);
        if (model_choose(2) != 0) {
            MODEL_CHECK(
                troupe_timer_cancel(self, 1) == timed->is_active, "cancel");
            timed->is_active = false;
        } else {
            MODEL_ASSERT(start_tick(self, timed) == TROUPE_OK);
        }
        break;
    }
    return TROUPE_CONTINUE;
}

static const troupe_actor_type timed_type = {
    .size = sizeof(troupe_actor_type),
    .name = "timed",
    .state_bytes = sizeof(struct timed),
    .start = start_timed,
    .receive = receive_timed,
    .stop = stop_sink,
};

/* Against cancels and new starts, and against a stop. */
static void
timers(void)
{
    begin(2);
    ticks_made = ticks_dropped = 0;
    MODEL_ASSERT(
        troupe_system_spawn(rt, &timed_type, NULL, &actor) == TROUPE_OK);
    run_three(post_some, with(0, 2),
        model_choose(2) != 0 ? stop_now : post_some, with(1, 1), NULL, NULL);
    model_await_rest();
    check_messages();
    check_books();
    finish();
    MODEL_CHECK(ticks_made == ticks_dropped, "%u of %u ticks dropped",
        ticks_dropped, ticks_made);
}

/* --- failures --------------------------------------------------------------
 */

/*
 * A keeper has one or two weak children. A note from sender 0 makes whoever
 * gets it fail; so does the first one from sender 1. Others are only counted.
 */
#define WEAK 2

struct weak {
    uint32_t number; /* from 1; 0: not started */
    bool is_failed;
};

static struct {
    troupe_supervision how, own;
    uint32_t children;
    bool keeps;
    troupe_ref child[WEAK];
    uint32_t states[WEAK + 1]; /* alive at a time; the last: the keeper's */
} family;

static void
enter_state(struct weak *weak, uint32_t number)
{
    MODEL_CHECK(weak->number == 0 && !weak->is_failed, "an old state");
    weak->number = number;
    MODEL_CHECK(family.states[number - 1]++ == 0, "two states of %u", number);
    ledger.started++;
}

static void
leave_state(troupe_self *self, void *state, const troupe_exit *why)
{
    struct weak *weak = state;

    (void)self;
    (void)why;
    MODEL_CHECK(weak->number != 0, "stopped without a start");
    MODEL_CHECK(
        family.states[weak->number - 1]-- == 1, "no state of %u", weak->number);
    weak->number = 0;
    ledger.stopped++;
}

/* Why may be the failure of a sibling. */
static void
restart_weak(troupe_self *self, void *state, const troupe_exit *why)
{
    MODEL_CHECK(why->kind == TROUPE_EXIT_FAILED &&
                    (family.how.scope == TROUPE_SCOPE_ALL_FOR_ONE ||
                        troupe_ref_equal(why->actor, troupe_self_ref(self))),
        "restarted for what has not happened");
    leave_state(self, state, why);
}

/* With the state that it had: resumed, or kept while its parent restarts. */
static bool
may_go_on(void)
{
    return family.how.otherwise == TROUPE_DIRECTIVE_RESUME ||
           (family.how.otherwise == TROUPE_DIRECTIVE_ESCALATE &&
               family.keeps) ||
           family.own.otherwise == TROUPE_DIRECTIVE_RESUME;
}

static troupe_verdict
receive_weak(troupe_self *self, void *state, const troupe_msg *msg)
{
    const struct note *note = troupe_payload(msg, struct note);
    struct weak *weak = state;

    MODEL_CHECK(
        (ledger.inside & sink_bit(self)) == 0, "two turns of one actor");
    MODEL_CHECK(weak->number != 0, "runs without a state");
    MODEL_CHECK(!weak->is_failed || may_go_on(), "runs on after a failure");
    ledger.inside |= sink_bit(self);
    model_step("in_turn");
    ledger.handled[note->sender]++;
    ledger.inside &= ~sink_bit(self);
    if (note->sender == 0 || (note->sender == 1 && note->number == 0)) {
        weak->is_failed = true;
        return troupe_fail(self, 1 + (int32_t)note->sender);
    }
    return TROUPE_CONTINUE;
}

static troupe_status
start_weak(troupe_self *self, void *state, const void *arg)
{
    uint32_t number;

    (void)self;
    memcpy(&number, arg, sizeof number);
    enter_state(state, number);
    return TROUPE_OK;
}

static const troupe_actor_type weak_type = {
    .size = sizeof(troupe_actor_type),
    .name = "weak",
    .state_bytes = sizeof(struct weak),
    .start = start_weak,
    .receive = receive_weak,
    .stop = leave_state,
    .restart = restart_weak,
};

static troupe_status
start_keeper(troupe_self *self, void *state, const void *arg)
{
    static const char *const names[WEAK] = {"one", "two"};

    (void)arg;
    enter_state(state, WEAK + 1);
    for (uint32_t i = 0; i < family.children; i++) {
        const uint32_t number = i + 1;
        const troupe_spawn_options options = {.size = sizeof options,
            .name = names[i],
            .arg = &number,
            .arg_bytes = sizeof number};
        troupe_status status =
            troupe_spawn(self, &weak_type, &options, &family.child[i]);

        MODEL_CHECK(status == TROUPE_OK || status == TROUPE_E_CLOSED ||
                        (status == TROUPE_E_EXISTS && family.keeps),
            "spawn: %s", troupe_status_name(status));
    }
    return TROUPE_OK;
}

static const troupe_actor_type keeper_type = {
    .size = sizeof(troupe_actor_type),
    .name = "keeper",
    .state_bytes = sizeof(struct weak),
    .start = start_keeper,
    .receive = receive_weak,
    .stop = leave_state,
    .restart = restart_weak,
};

/* The keeper is `manager`; children are there when this returns. */
static void
begin_family(uint32_t workers, uint32_t children)
{
    troupe_spawn_options options = {.size = sizeof options,
        .children = &family.how,
        .own = &family.own,
        .flags = family.keeps ? (uint32_t)TROUPE_ACTOR_KEEP_CHILDREN : 0};

    family.how.size = family.own.size = sizeof family.how;
    family.children = children;
    begin(workers);
    MODEL_ASSERT(
        troupe_system_spawn(rt, &keeper_type, &options, &manager) == TROUPE_OK);
    if (workers == 0) {
        run_turns(0);
    }
    model_await_sleep();
}

static void
post_to_first(void *user)
{
    uint32_t sender = (uint32_t)(uintptr_t)user;

    post_note(sender, family.child[0], 1);
}

static void
post_to_second(void *user)
{
    uint32_t sender = (uint32_t)(uintptr_t)user;

    post_note(sender, family.child[1], 1);
}

static void
post_to_keeper(void *user)
{
    uint32_t sender = (uint32_t)(uintptr_t)user;

    post_note(sender, manager, 1);
}

/* Nobody waits for ever: whoever is there handles one more. */
static void
expect_all_awake(void)
{
    uint32_t expected;

    model_await_sleep();
    expected = ledger.handled[2];
    for (uint32_t i = 0; i < family.children; i++) {
        if (troupe_depth(rt, family.child[i]) != TROUPE_DEPTH_DEAD) {
            post_note(2, family.child[i], 1);
            expected++;
        }
    }
    if (troupe_depth(rt, manager) != TROUPE_DEPTH_DEAD) {
        post_note(2, manager, 1);
        expected++;
    }
    model_await_sleep();
    MODEL_CHECK(ledger.handled[2] == expected, "%u of %u are awake",
        ledger.handled[2], expected);
    check_books();
    finish();
}

/* It fails, is stopped and gets messages, all at once. */
static void
failing(void)
{
    memset(&family, 0, sizeof family);
    family.how.otherwise = (troupe_directive)model_choose(3);
    begin_family(1 + model_choose(2), 1);
    actor = family.child[0];
    run_three(post_some, with(0, 2), stop_now, NULL, post_some, with(1, 2));
    model_await_sleep();
    MODEL_ASSERT(troupe_depth(rt, actor) == TROUPE_DEPTH_DEAD);
    check_messages();
    expect_all_awake();
}

/* It fails again and again, and nobody stops it. */
static void
failing_on(void)
{
    memset(&family, 0, sizeof family);
    family.how.otherwise = (troupe_directive)model_choose(2);
    begin_family(1 + model_choose(2), 1);
    actor = family.child[0];
    run_three(post_some, with(0, 2), post_some, with(1, 2), NULL, NULL);
    model_await_sleep();
    MODEL_CHECK(ledger.handled[0] == 2 && ledger.handled[1] == 2,
        "%u and %u of 2 were handled", ledger.handled[0], ledger.handled[1]);
    expect_all_awake();
}

/* Two at once, each for itself or all for one. */
static void
two_fail(void)
{
    memset(&family, 0, sizeof family);
    family.how.scope = (troupe_scope)model_choose(2);
    family.how.otherwise = (troupe_directive)model_choose(2);
    begin_family(2, 2);
    run_three(post_to_first, (void *)0, post_to_second, (void *)1,
        post_to_first, (void *)2);
    expect_all_awake();
}

/* The order for a child and the failure of its parent cross. */
static void
parent_fails(void)
{
    memset(&family, 0, sizeof family);
    family.keeps = model_choose(2) != 0;
    family.own.otherwise = (troupe_directive)model_choose(2);
    family.how.otherwise = (troupe_directive)model_choose(2);
    begin_family(2, 1);
    run_three(post_to_first, (void *)0, post_to_keeper, (void *)1,
        post_to_first, (void *)2);
    expect_all_awake();
}

/* A failure goes up, and what comes down meets another one. */
static void
escalates(void)
{
    memset(&family, 0, sizeof family);
    family.keeps = model_choose(2) != 0;
    family.own.otherwise = (troupe_directive)model_choose(2);
    family.how.otherwise = TROUPE_DIRECTIVE_ESCALATE;
    begin_family(2, 2);
    run_three(post_to_first, (void *)0, post_to_second, (void *)1,
        model_choose(2) != 0 ? post_to_keeper : post_to_first, (void *)2);
    expect_all_awake();
}

/* Children go before a restart, whatever else makes them go. */
static void
restart_waits(void)
{
    memset(&family, 0, sizeof family);
    begin_family(1 + model_choose(2), 2);
    actor = family.child[0];
    run_three(
        post_to_keeper, (void *)0, stop_now, NULL, post_to_second, (void *)1);
    expect_all_awake();
}

/* The keeper is restarted, and with it the child, which fails in its turn. */
static void
fail_in_turn(void *user)
{
    (void)user;
    post_note(0, manager, 1);
    while (troupe_ref_equal(family.child[0], actor)) {
        model_relax(MODEL_AT("await_second"));
    }
    MODEL_CHECK(family.child[0].index == actor.index, "cell %u, not %u",
        family.child[0].index, actor.index);
    post_note(0, family.child[0], 1);
}

/* Who is told late, when another waits in the cell, looks once for nothing. */
static void
tell_late(void)
{
    memset(&family, 0, sizeof family);
    begin_family(1, 1);
    actor = family.child[0];
    run_three(fail_in_turn, NULL, stop_now, NULL, stop_now, NULL);
    model_await_sleep();
    MODEL_ASSERT(troupe_depth(rt, family.child[0]) == 0);
    expect_all_awake();
}

/* No answer comes from a parent that stops, and nobody waits for one. */
static void
fail_and_stop_system(void)
{
    memset(&family, 0, sizeof family);
    begin_family(1, model_choose(2));
    run_three(post_to_keeper, (void *)0, request_stop, NULL, NULL, NULL);
    model_await_sleep();
    MODEL_CHECK(troupe_depth(rt, manager) == TROUPE_DEPTH_DEAD,
        "it waits for an answer");
    finish();
}

int
main(int argc, char **argv)
{
    static const struct model_scenario scenarios[] = {
        /* Each of these makes a system: a tenth of a millisecond and more. */
        {"post", post, 1},
        {"await_idle", await_idle, 2},
        {"stop_one", stop_one, 4},
        {"stop_twice", stop_twice, 2},
        {"reuse", reuse, 4},
        {"port_reuse", port_reuse, 4},
        {"ruled_post", ruled_post, 2},
        {"ruled_stop", ruled_stop, 4},
        {"put_back", put_back, 2},
        {"throttle_reuse", throttle_reuse, 2},
        {"tree", tree, 3},
        {"names", names, 2},
        {"names_reuse", names_reuse, 4},
        {"stop_system", stop_system, 3},
        {"stop_from_outside", stop_from_outside, 2},
        {"port_poll", port_poll, 3},
        {"port_one_by_one", port_one_by_one, 3},
        {"port_close", port_close, 3},
        {"watch", watch, 2},
        {"unwatch", unwatch, 4},
        {"watch_and_end", watch_and_end, 4},
        {"stop_wait", stop_wait, 2},
        {"shared", shared, 2},
        {"stop_busy", stop_busy, 2},
        {"delayed", delayed, 2},
        {"timers", timers, 2},
        {"failing", failing, 4},
        {"failing_on", failing_on, 3},
        {"two_fail", two_fail, 4},
        {"parent_fails", parent_fails, 4},
        {"escalates", escalates, 4},
        {"restart_waits", restart_waits, 3},
        {"tell_late", tell_late, 3},
        {"fail_and_stop_system", fail_and_stop_system, 2},
    };

    model_thread_local(&trp_thread, sizeof trp_thread);
    return model_main(
        argc, argv, "actor", scenarios, sizeof scenarios / sizeof scenarios[0]);
}
