/* SPDX-License-Identifier: MIT */

/* Rows that measure mailboxes with rules, deep ones, and the stash. */

#include "rows.h"

#include <stdio.h>

enum { ROOM = 64, FLOOD = 1000, STASHED = 64 };

/* Undroppable: it arrives however full the mailbox is. */
TROUPE_MSG_TYPE_WITH(end_message, int64_t, 30, TROUPE_MSG_UNDROPPABLE, NULL);

static troupe_ref
spawn_with(struct bench *bench, const troupe_actor_type *type,
    const troupe_mailbox_options *mailbox,
    const troupe_throttle_options *throttle, const void *arg, size_t arg_bytes)
{
    troupe_ref actor = TROUPE_NONE;
    troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);

    options.mailbox = mailbox;
    options.throttle = throttle;
    options.arg = arg;
    options.arg_bytes = arg_bytes;
    bench_must(
        troupe_system_spawn(bench->system, type, &options, &actor), type->name);
    return actor;
}

/* --- unbounded, throttle, reject, dropnew, drophead: bursts ------------------
 */

struct sink {
    int64_t handled;
    int64_t last; /* numbers come in ascending order, with gaps */
};

/* The end of a burst is answered; it says how many were accepted so far. */
static troupe_verdict
sink_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct sink *sink = state;
    int64_t number = *troupe_payload(msg, int64_t);

    if (troupe_msg_is(msg, &end_message)) {
        bench_expect(sink->handled <= number, "messages accepted");
        troupe_reply(self, &bench_number, &sink->handled);
        return TROUPE_CONTINUE;
    }
    bench_expect(number > sink->last, "order of the survivors");
    sink->last = number;
    sink->handled++;
    return TROUPE_CONTINUE;
}

static const troupe_actor_type sink_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "sink",
    .state_bytes = sizeof(struct sink),
    .receive = sink_receive,
};

struct source {
    troupe_ref to;
    int64_t bursts;
    int64_t burst; /* messages */
    int64_t sent;
    int64_t accepted;
};

static troupe_status
source_start(troupe_self *self, void *state, const void *arg)
{
    (void)self;
    *(struct source *)state = *(const struct source *)arg;
    return TROUPE_OK;
}

/* Sends 1, 2, 3 and so on, a burst for each answer, whatever becomes of them.
 */
static troupe_verdict
source_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct source *source = state;

    if (source->bursts-- == 0) {
        bench_done(self, *troupe_payload(msg, int64_t));
        return TROUPE_DONE;
    }
    for (int64_t i = 0; i < source->burst; i++) {
        source->sent++;
        source->accepted += troupe_send(self, source->to, &bench_number,
                                &source->sent) == TROUPE_OK;
    }
    troupe_tell(self, source->to, &end_message, &source->accepted);
    return TROUPE_CONTINUE;
}

static const troupe_actor_type source_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "source",
    .state_bytes = sizeof(struct source),
    .receive = source_receive,
    .start = source_start,
};

/*
 * Bursts that just fit, or such as fill the mailbox many times. `mailbox` NULL:
 * an unbounded one.
 */
static void
offer_to(struct bench *bench, const troupe_mailbox_options *mailbox,
    const troupe_throttle_options *throttle, int64_t burst)
{
    struct source work = {
        .bursts = bench_scaled(bench, 10000000 / burst), .burst = burst};
    int64_t total = work.bursts * burst;
    int64_t handled = 0;
    troupe_ref source;

    work.to = spawn_with(bench, &sink_type, mailbox, throttle, NULL, 0);
    source = bench_spawn(bench, &source_type, &work, sizeof work);
    bench_begin(bench);
    bench_post_go(bench, source);
    handled = bench_wait(bench);
    bench_expect(
        burst > ROOM ? handled >= work.bursts * ROOM : handled == total,
        "messages handled");
    if (mailbox == NULL || mailbox->overflow == TROUPE_OVERFLOW_REJECT) {
        bench->must_refuse = (uint64_t)(total - handled);
    } else {
        bench->must_drop = (uint64_t)(total - handled);
    }
    bench->must_end = 1;
    bench->result.messages = (uint64_t)total;
    if (burst > ROOM) {
        snprintf(bench->result.note, sizeof bench->result.note,
            "%.1f %% handled", 100.0 * (double)handled / (double)total);
    }
}

static void
offer(struct bench *bench, troupe_overflow overflow, int64_t burst)
{
    troupe_mailbox_options mailbox = TROUPE_INIT(troupe_mailbox_options);

    mailbox.overflow = overflow;
    mailbox.capacity = ROOM;
    offer_to(bench, &mailbox, NULL, burst);
}

void
bench_unbounded(struct bench *bench)
{
    offer_to(bench, NULL, NULL, ROOM);
}

/* As many tokens as it ever needs: what it costs to ask for one. */
void
bench_throttle(struct bench *bench)
{
    troupe_throttle_options throttle = TROUPE_INIT(troupe_throttle_options);

    throttle.per_second = 1e12;
    offer_to(bench, NULL, &throttle, ROOM);
}

void
bench_reject(struct bench *bench)
{
    offer(bench, TROUPE_OVERFLOW_REJECT, ROOM);
}

void
bench_rejectfull(struct bench *bench)
{
    offer(bench, TROUPE_OVERFLOW_REJECT, FLOOD);
}

void
bench_dropnew(struct bench *bench)
{
    offer(bench, TROUPE_OVERFLOW_DROP_NEW, ROOM);
}

void
bench_dropnewfull(struct bench *bench)
{
    offer(bench, TROUPE_OVERFLOW_DROP_NEW, FLOOD);
}

void
bench_drophead(struct bench *bench)
{
    offer(bench, TROUPE_OVERFLOW_DROP_HEAD, ROOM);
}

void
bench_dropheadfull(struct bench *bench)
{
    offer(bench, TROUPE_OVERFLOW_DROP_HEAD, FLOOD);
}

/* --- deep, priority: one in, one out, while many wait -----------------------
 */

struct deep {
    int64_t depth;
    int64_t left; /* messages to handle before it is drained */
    uint64_t random;
    uint64_t began_ns;
    bool ordered; /* what is left comes out by rank */
    int64_t last;
    int64_t waiting;
    int64_t sum; /* of what is in the mailbox */
};

static troupe_status
deep_start(troupe_self *self, void *state, const void *arg)
{
    (void)self;
    *(struct deep *)state = *(const struct deep *)arg;
    return TROUPE_OK;
}

static void
deep_add(troupe_self *self, struct deep *deep)
{
    int64_t number = bench_random(&deep->random, 1 << 30);

    bench_tell_number(self, troupe_self_ref(self), number);
    deep->waiting++;
    deep->sum += number;
}

/* First fills its mailbox, then stands at that depth, then drains it. */
static troupe_verdict
deep_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct deep *deep = state;
    int64_t number;

    if (troupe_msg_is(msg, &bench_go)) {
        while (deep->waiting < deep->depth) {
            deep_add(self, deep);
        }
        deep->began_ns = bench_now_ns();
        return TROUPE_CONTINUE;
    }
    number = *troupe_payload(msg, int64_t);
    deep->waiting--;
    deep->sum -= number;
    if (deep->left > 0) {
        deep_add(self, deep);
        if (--deep->left == 0) {
            bench_done(self, (int64_t)(bench_now_ns() - deep->began_ns));
        }
        return TROUPE_CONTINUE;
    }
    bench_expect(!deep->ordered || number >= deep->last, "order of ranks");
    deep->last = number;
    if (deep->waiting == 0) {
        bench_done(self, deep->sum);
    }
    return TROUPE_CONTINUE;
}

static const troupe_actor_type deep_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "deep",
    .state_bytes = sizeof(struct deep),
    .receive = deep_receive,
    .start = deep_start,
};

/* The row's time is that of the messages in the middle. */
static void
stand(struct bench *bench, const troupe_mailbox_options *mailbox, int64_t depth,
    int64_t messages)
{
    struct deep work = {
        .depth = depth,
        .left = bench_scaled(bench, messages),
        .random = bench_random_seed(1),
        .ordered = mailbox != NULL,
    };
    troupe_ref deep =
        spawn_with(bench, &deep_type, mailbox, NULL, &work, sizeof work);
    double seconds = 0;

    bench_begin(bench);
    bench_post_go(bench, deep);
    seconds = (double)bench_wait(bench) * 1e-9;
    bench_expect(bench_wait(bench) == 0, "sum of what came out");
    bench->result.seconds = seconds;
    bench->result.messages = (uint64_t)work.left;
}

static double
rank_of(const troupe_msg *msg, void *user)
{
    (void)user;
    return troupe_msg_is(msg, &bench_number)
               ? (double)*troupe_payload(msg, int64_t)
               : 0;
}

static void
stand_ordered(struct bench *bench, int64_t depth)
{
    troupe_mailbox_options mailbox = TROUPE_INIT(troupe_mailbox_options);

    mailbox.priority = rank_of;
    stand(bench, &mailbox, depth, 2000000);
}

#define DEPTHS(X) X(10, 10) X(1k, 1000) X(100k, 100000) X(1m, 1000000)
#define STANDING_ROWS(name, depth)                                             \
    void bench_deep##name(struct bench *bench)                                 \
    {                                                                          \
        stand(bench, NULL, depth, 10000000);                                   \
    }                                                                          \
    void bench_priority##name(struct bench *bench)                             \
    {                                                                          \
        stand_ordered(bench, depth);                                           \
    }
DEPTHS(STANDING_ROWS)

/* --- stash: 64 numbers are put aside, put back and handled ------------------
 */

struct stasher {
    int64_t bursts;
    int64_t left; /* of this burst */
    bool open;
    int64_t sum;
};

static troupe_status
stasher_start(troupe_self *self, void *state, const void *arg)
{
    (void)self;
    *(struct stasher *)state = *(const struct stasher *)arg;
    return TROUPE_OK;
}

/* The next burst, or the end. */
static void
stasher_next(troupe_self *self, struct stasher *stasher)
{
    stasher->open = false;
    stasher->left = STASHED;
    if (stasher->bursts-- == 0) {
        bench_done(self, stasher->sum);
        return;
    }
    for (int64_t i = 1; i <= STASHED; i++) {
        bench_tell_number(self, troupe_self_ref(self), i);
    }
}

static troupe_verdict
stasher_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct stasher *stasher = state;

    if (troupe_msg_is(msg, &bench_go)) {
        stasher_next(self, stasher);
    } else if (!stasher->open) {
        bench_must(troupe_stash(self), "stash");
        if (--stasher->left == 0) {
            stasher->open = true;
            bench_must(troupe_unstash(self, 0), "unstash");
        }
    } else {
        bench_expect(*troupe_payload(msg, int64_t) == ++stasher->left, "order");
        stasher->sum += stasher->left;
        if (stasher->left == STASHED) {
            stasher_next(self, stasher);
        }
    }
    return TROUPE_CONTINUE;
}

static const troupe_actor_type stasher_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "stasher",
    .state_bytes = sizeof(struct stasher),
    .receive = stasher_receive,
    .start = stasher_start,
};

void
bench_stash(struct bench *bench)
{
    struct stasher work = {.bursts = bench_scaled(bench, 5000000 / STASHED)};
    troupe_ref stasher = bench_spawn(bench, &stasher_type, &work, sizeof work);

    bench_begin(bench);
    bench_post_go(bench, stasher);
    bench_expect(
        bench_wait(bench) == work.bursts * (STASHED * (STASHED + 1) / 2),
        "sum of numbers");
    bench->result.messages = (uint64_t)work.bursts * STASHED;
}
