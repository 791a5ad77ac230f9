/* SPDX-License-Identifier: MIT */
#include "actor/gather.h"

#include "actor/send.h"
#include "base/options.h"

/* Before the deadline of an ask, so that its asker is told more than that. */
#define TIMEOUT_NS TROUPE_MS(4500)

enum part_stage {
    PART_WAITS,    /* nobody has been asked; item: the question */
    PART_ASKED,    /* item: nothing */
    PART_ANSWERED, /* item: the answer */
    PART_OVER      /* item: nothing */
};

struct part {
    struct trp_item item;
    troupe_msg view; /* of an answer */
    troupe_ticket ask;
    uint32_t index;
    uint32_t stage; /* enum part_stage */
};

struct gather {
    TRP_ALIGNED(16) troupe_gathered shown; /* first: the payload */
    troupe_better_fn better;
    void *user;
    uint64_t tail_delay_ns;
    troupe_ticket outer;
    troupe_ticket pause;
    uint32_t policy; /* troupe_gather_policy */
    uint32_t least;  /* answers without which it fails */
    uint32_t left;   /* those who may still answer, asked or not */
    uint32_t asked;  /* the first so many */
    uint32_t open;   /* asked, and may still answer */
    struct part part[];
    /* troupe_gather_part[shown.count] */
};

_Static_assert(sizeof(struct part) % 16 == 0 &&
                   offsetof(struct gather, part) % 16 == 0 &&
                   offsetof(struct part, item) == 0 &&
                   offsetof(struct trp_item, payload) % 16 == 0,
    "an answer is aligned to 16");

static struct trp_box *
box_of(struct gather *gather)
{
    return (struct trp_box *)(void *)gather - 1;
}

static struct gather *
gather_of(struct part *part)
{
    return TRP_CONTAINER_OF(part - part->index, struct gather, part);
}

static troupe_gather_part *
told_of(struct gather *gather, uint32_t index)
{
    return (troupe_gather_part *)(void *)&gather->part[gather->shown.count] +
           index;
}

/* What a part holds, whatever it is. */
static void
drop_parts(void *payload, size_t bytes)
{
    struct gather *gather = payload;
    struct trp_local *local = trp_local_here(box_of(gather)->core);

    (void)bytes;
    for (uint32_t i = 0; i < gather->shown.count; i++) {
        struct part *part = &gather->part[i];

        if (part->stage == PART_ANSWERED) {
            trp_item_release(local, &part->item);
        }
    }
}

/* Of variable length: nobody copies it, and the parts lie behind. */
static const troupe_msg_type gathered_type = {
    sizeof(troupe_msg_type), "gathered", 0, TROUPE_TAG_GATHERED, 0, drop_parts};

/* --- the end -------------------------------------------------------------- */

/* Of a part that had ended when it was closed: an answer came too late. */
static troupe_verdict
on_late(troupe_self *self, void *state, const troupe_result *result, void *user)
{
    troupe_msg view;

    (void)state;
    (void)result;
    if (self->current.spent == 0) { /* there is one: a failure, too */
        trp_item_view(self->current.item, &view);
        trp_book(self->core, self->local, handled, UINT64_MAX);
        trp_dead_letter(self->core, self->local,
            trp_ref_unpack((uint64_t)(uintptr_t)user), &view,
            trp_item_box_or_null(self->current.item), TROUPE_DEAD_LATE);
    }
    return TROUPE_CONTINUE;
}

_Static_assert(sizeof(void *) == sizeof(troupe_ref), "a ref travels in one");

/* G2 */
static void
close_op(struct troupe_self *self, troupe_ticket ticket)
{
    struct trp_op *op = trp_op_find(self, ticket);

    if (op == NULL) {
        return;
    }
    if (trp_op_end(op)) {
        trp_op_discard(self, op);
    } else {
        op->fn = on_late;
        op->user = (void *)(uintptr_t)trp_op_address(self->core, op);
    }
}

/* What is told of one that was asked and has not answered. */
static troupe_status
status_of_rest(troupe_status status)
{
    return status == TROUPE_OK || status == TROUPE_E_FAILED ? TROUPE_E_CANCELLED
                                                            : status;
}

static void
close_all(struct troupe_self *self, struct gather *gather, troupe_status status)
{
    close_op(self, gather->pause);
    for (uint32_t i = 0; i < gather->shown.count; i++) {
        struct part *part = &gather->part[i];

        if (part->stage > PART_ASKED) {
            continue;
        }
        close_op(self, part->ask);
        if (part->stage == PART_WAITS) {
            trp_item_release(self->local, &part->item);
        }
        told_of(gather, i)->status = part->stage == PART_WAITS
                                         ? TROUPE_E_CANCELLED
                                         : status_of_rest(status);
        part->stage = PART_OVER;
    }
}

/* The first, or the best; of equals, who was asked first. NULL: none. */
static struct part *
best_answer(struct gather *gather)
{
    struct part *best = NULL;

    for (uint32_t i = 0; i < gather->shown.count; i++) {
        struct part *part = &gather->part[i];

        if (part->stage == PART_ANSWERED &&
            (best == NULL ||
                gather->better(&part->view, &best->view, gather->user))) {
            best = part;
        }
    }
    return best;
}

/* NULL: the outcome is all of them together. */
static struct part *
winner_of(struct gather *gather, troupe_status status)
{
    bool is_best = gather->policy == TROUPE_GATHER_BEST;

    return gather->policy <= TROUPE_GATHER_BEST &&
                   (status == TROUPE_OK ||
                       (is_best && status == TROUPE_E_TIMEOUT))
               ? best_answer(gather)
               : NULL;
}

/* An answer as that of any ask; it was shown to nobody yet. */
static void
give_winner(struct troupe_self *self, struct trp_op *outer,
    struct gather *gather, struct part *winner)
{
    outer->kind = TRP_OP_ASK;
    outer->status = TROUPE_OK;
    trp_item_assign(&outer->item, &winner->item);
    winner->stage = PART_OVER;
    trp_book(self->core, self->local, answers, 1);
    trp_book(self->core, self->local, handled, UINT64_MAX);
    trp_box_release(self->local, box_of(gather), true);
}

/* A message of the library's: sent now, handled by the continuation. */
static void
give_all(struct troupe_self *self, struct trp_op *outer, struct gather *gather)
{
    struct trp_box *box = box_of(gather);

    box->msg.sender = self->ref;
    trp_item_from_box(&outer->item, box);
    trp_book(self->core, self->local, sent, 1);
    trp_book(self->core, self->local, answers, 1);
}

void
trp_gather_end(struct troupe_self *self, struct trp_op *outer)
{
    struct gather *gather = trp_item_box(&outer->item)->msg.payload;
    troupe_status status = (troupe_status)outer->status;
    struct part *winner = winner_of(gather, status);

    close_all(self, gather, status);
    if (winner != NULL) {
        give_winner(self, outer, gather, winner);
    } else {
        give_all(self, outer, gather);
    }
}

/* --- asking --------------------------------------------------------------- */

static troupe_verdict on_pause(
    troupe_self *self, void *state, const troupe_result *result, void *user);

static void
end(struct troupe_self *self, struct gather *gather, troupe_status status,
    int32_t code)
{
    struct trp_op *outer = trp_op_find(self, gather->outer);

    outer->code = code;
    (void)trp_op_end_with(self, outer, status);
}

/* `code`: of what has just failed. True: the state may be gone. */
static bool
decide(struct troupe_self *self, struct gather *gather, int32_t code)
{
    size_t answered = gather->shown.answered;

    if (answered + gather->left < gather->least) {
        end(self, gather, TROUPE_E_FAILED, code);
        return true;
    }
    if (gather->policy == TROUPE_GATHER_BEST ? gather->left == 0
                                             : answered == gather->least) {
        end(self, gather, TROUPE_OK, 0);
        return true;
    }
    return false;
}

static void
fail_part(struct gather *gather, struct part *part, troupe_status status,
    int32_t code)
{
    troupe_gather_part *told = told_of(gather, part->index);

    part->stage = PART_OVER;
    told->status = status;
    told->code = code;
    gather->left--;
}

static void
ask_next(struct troupe_self *self, struct gather *gather)
{
    struct part *part = &gather->part[gather->asked];
    troupe_ref whom = told_of(gather, gather->asked++)->from;
    troupe_status status;

    if (part->stage == PART_OVER) {
        return; /* nobody */
    }
    trp_book(self->core, self->local, sent, 1);
    status = trp_mailbox_deliver(self->core, self->local, whom, &part->item);
    if (status == TROUPE_OK) {
        part->stage = PART_ASKED;
        gather->open++;
        return;
    }
    trp_book(self->core, self->local, refused, 1);
    trp_item_release(self->local, &part->item);
    close_op(self, part->ask);
    fail_part(gather, part, status, 0);
}

/* Until the next one is asked. False: it is asked at once. */
static bool
begin_pause(struct troupe_self *self, struct gather *gather)
{
    struct trp_op *op;

    if (gather->tail_delay_ns == 0) {
        return false;
    }
    close_op(self, gather->pause);
    gather->pause = (troupe_ticket){0};
    if (gather->tail_delay_ns == TROUPE_FOREVER || gather->open == 0 ||
        gather->asked == gather->shown.count) {
        return true; /* only when nobody is left who was asked */
    }
    if (troupe_sleep(self, gather->tail_delay_ns, troupe_then(on_pause, gather),
            &gather->pause) != TROUPE_OK) {
        return false;
    }
    op = trp_op_find(self, gather->pause);
    op->inner = true;
    return true;
}

/* Who is to be asked now is asked. */
static void
go_on(
    struct troupe_self *self, struct gather *gather, bool is_due, int32_t code)
{
    while (!decide(self, gather, code)) {
        if (gather->asked == gather->shown.count ||
            (!is_due && gather->open != 0)) {
            return;
        }
        ask_next(self, gather);
        is_due = !begin_pause(self, gather);
        code = 0;
    }
}

static troupe_verdict
on_pause(
    troupe_self *self, void *state, const troupe_result *result, void *user)
{
    (void)state;
    if (result->status == TROUPE_OK) {
        go_on(self, user, true, 0);
    }
    return TROUPE_CONTINUE;
}

static troupe_verdict
on_part(troupe_self *self, void *state, const troupe_result *result, void *user)
{
    struct part *part = user;
    struct gather *gather = gather_of(part);

    (void)state;
    gather->open--;
    if (result->status == TROUPE_OK) {
        trp_item_assign(&part->item, self->current.item);
        self->current.spent |= TRP_SPENT_TAKEN | TRP_SPENT_AWAY;
        trp_item_view(&part->item, &part->view);
        part->stage = PART_ANSWERED;
        told_of(gather, part->index)->msg = &part->view;
        gather->shown.answered++;
        gather->left--;
    } else {
        fail_part(gather, part, result->status, result->code);
    }
    go_on(self, gather, false, result->code);
    return TROUPE_CONTINUE;
}

/* --- the beginning -------------------------------------------------------- */

static troupe_status
check_options(const char *call, size_t count, troupe_gather_options *options)
{
    if ((uint32_t)options->policy > TROUPE_GATHER_ALL) {
        return trp_refuse(TROUPE_E_INVALID, call, "policy",
            "must be TROUPE_GATHER_*", "%u", (uint32_t)options->policy);
    }
    if (options->policy == TROUPE_GATHER_BEST && options->better == NULL) {
        return trp_refuse(TROUPE_E_INVALID, call, "better",
            "must not be NULL with TROUPE_GATHER_BEST", "NULL");
    }
    if (options->policy == TROUPE_GATHER_QUORUM && count != 0 &&
        options->quorum > count) {
        return trp_refuse(TROUPE_E_INVALID, call, "quorum",
            "must not be more than are asked", "%u of %zu", options->quorum,
            count);
    }
    if (options->timeout_ns == 0) {
        options->timeout_ns = TIMEOUT_NS;
    }
    return TROUPE_OK;
}

static troupe_status
check(const char *call, const struct troupe_self *self, const troupe_ref *whom,
    size_t count, const struct trp_question *question, troupe_continuation then)
{
    if (self == NULL || then.fn == NULL || (whom == NULL && count != 0)) {
        return trp_refuse(TROUPE_E_INVALID, call,
            self == NULL      ? "self"
            : then.fn == NULL ? "then.fn"
                              : "whom",
            "must not be NULL", "NULL");
    }
    if (count > INT32_MAX) {
        return trp_refuse(TROUPE_E_INVALID, call, "count", "must be below 2^31",
            "%zu", count);
    }
    return trp_message_check(
        call, question->type, question->payload, question->bytes);
}

static uint32_t
least_of(const troupe_gather_options *options, uint32_t count)
{
    switch (options->policy) {
    case TROUPE_GATHER_QUORUM:
        return options->quorum != 0 ? options->quorum : count / 2 + 1;
    case TROUPE_GATHER_ALL:
        return count;
    case TROUPE_GATHER_FIRST:
    case TROUPE_GATHER_BEST:
        break;
    }
    return 1;
}

static struct gather *
make(struct troupe_self *self, const troupe_ref *whom, uint32_t count,
    const troupe_gather_options *options)
{
    struct trp_box *box = trp_box_new(self->core, self->local, &gathered_type,
        sizeof(struct gather) +
            count * (sizeof(struct part) + sizeof(troupe_gather_part)));
    struct gather *gather;

    if (box == NULL) {
        return NULL;
    }
    gather = box->msg.payload;
    gather->shown.count = gather->left = count;
    gather->shown.parts = told_of(gather, 0);
    gather->better = options->better;
    gather->user = options->user;
    gather->tail_delay_ns = options->tail_delay_ns;
    gather->policy = (uint32_t)options->policy;
    gather->least = least_of(options, count);
    for (uint32_t i = 0; i < count; i++) {
        told_of(gather, i)->from = whom[i];
        gather->part[i].index = i;
        if (troupe_ref_is_none(whom[i])) {
            fail_part(gather, &gather->part[i], TROUPE_E_NO_ROUTE, 0);
        }
    }
    return gather;
}

/* One that nobody has been told of. */
static void
discard(struct troupe_self *self, troupe_ticket ticket)
{
    struct trp_op *op = trp_op_find(self, ticket);

    if (op != NULL) {
        trp_op_discard(self, op);
    }
}

/* As if it had never been. */
static void
unmake(struct troupe_self *self, struct gather *gather,
    const struct trp_sending *sending)
{
    for (uint32_t i = 0; i < gather->shown.count; i++) {
        trp_send_unmake(sending, &gather->part[i].item);
        discard(self, gather->part[i].ask);
    }
    discard(self, gather->outer);
    trp_box_forget(self->local, box_of(gather));
}

static troupe_status
open_outer(struct troupe_self *self, const char *call, struct gather *gather,
    uint64_t timeout_ns, troupe_continuation then)
{
    troupe_status status;
    struct trp_op *outer = trp_op_open(self, call, timeout_ns, then, &status);

    if (outer != NULL) {
        outer->kind = TRP_OP_GATHER;
        outer->item.payload[0] = (uint64_t)(uintptr_t)box_of(gather);
        gather->outer.id = trp_op_ticket(self->core, outer);
    }
    return status;
}

static troupe_status
open_parts(struct troupe_self *self, const char *call, struct gather *gather)
{
    for (uint32_t i = 0; i < gather->shown.count; i++) {
        struct part *part = &gather->part[i];
        troupe_status status;
        struct trp_op *op;

        if (part->stage == PART_OVER) {
            continue;
        }
        op = trp_op_open(
            self, call, TROUPE_FOREVER, troupe_then(on_part, part), &status);
        if (op == NULL) {
            return status;
        }
        op->inner = true;
        part->ask.id = trp_op_ticket(self->core, op);
    }
    return TROUPE_OK;
}

/* One who is asked, at most: the payload may own what it likes. */
static troupe_status
make_question(struct gather *gather, const struct trp_sending *sending,
    const struct trp_question *question)
{
    struct trp_item item;
    troupe_status status = trp_send_make(
        sending, question->type, question->payload, question->bytes, &item);

    if (status != TROUPE_OK) {
        return status;
    }
    (void)trp_send_move_on(
        sending, question->type, question->payload, question->bytes);
    if (gather->left != 0) {
        gather->part[0].item = item;
    } else {
        trp_item_release(sending->local, &item);
    }
    return TROUPE_OK;
}

/* On success what the payload owns is the questions'. */
static troupe_status
make_questions(struct gather *gather, const struct trp_sending *sending,
    const struct trp_question *question)
{
    struct trp_fan fan;
    troupe_status status;

    if (gather->shown.count <= 1) {
        return make_question(gather, sending, question);
    }
    status = trp_fan_begin(
        &fan, sending, question->type, question->payload, question->bytes);
    for (uint32_t i = 0; i < gather->shown.count && status == TROUPE_OK; i++) {
        if (gather->part[i].stage != PART_OVER) {
            status = trp_fan_item(&fan, &gather->part[i].item);
        }
    }
    if (status == TROUPE_OK) {
        trp_fan_end(&fan);
    }
    return status;
}

/* Each of them answers its own ask. */
static void
address_questions(struct gather *gather, uint64_t hops)
{
    for (uint32_t i = 0; i < gather->shown.count; i++) {
        struct part *part = &gather->part[i];

        if (part->stage != PART_OVER) {
            part->item.mark |= TRP_MARK_ASK | hops;
            part->item.sender = part->ask.id | TRP_PROMISE_INDEX;
        }
    }
}

static void
begin(struct troupe_self *self, struct gather *gather)
{
    if (gather->left == 0) {
        end(self, gather, TROUPE_E_NO_ROUTE, 0);
    } else {
        go_on(self, gather, true, 0);
    }
}

troupe_status
trp_gather(struct troupe_self *self, const char *call, const troupe_ref *whom,
    size_t count, const struct trp_question *question,
    const troupe_gather_options *given, troupe_continuation then,
    troupe_ticket *ticket)
{
    troupe_gather_options options = TROUPE_INIT(troupe_gather_options);
    troupe_status status = check(call, self, whom, count, question, then);
    struct trp_sending sending = {.call = call};
    struct gather *gather;

    if (status == TROUPE_OK && given != NULL) {
        status = trp_options_copy(&options, sizeof options, given, call);
    }
    if (status == TROUPE_OK) {
        status = check_options(call, count, &options);
    }
    if (status != TROUPE_OK) {
        return status;
    }
    gather = make(self, whom, (uint32_t)count, &options);
    if (gather == NULL) {
        return TROUPE_E_NOMEM;
    }
    sending.core = self->core;
    sending.local = self->local;
    status = open_outer(self, call, gather, options.timeout_ns, then);
    if (status == TROUPE_OK) {
        status = open_parts(self, call, gather);
    }
    if (status == TROUPE_OK) {
        status = make_questions(gather, &sending, question);
    }
    if (status != TROUPE_OK) {
        unmake(self, gather, &sending);
        return status;
    }
    address_questions(gather, question->hops);
    if (ticket != NULL) {
        *ticket = gather->outer;
    }
    begin(self, gather);
    return TROUPE_OK;
}

troupe_status
troupe_gather(troupe_self *self, const troupe_ref *whom, size_t count,
    const troupe_msg_type *type, const void *payload,
    const troupe_gather_options *options, troupe_continuation then,
    troupe_ticket *ticket)
{
    const struct trp_question question = {
        type, payload, type != NULL ? type->bytes : 0, 0};

    return trp_gather(
        self, "troupe_gather", whom, count, &question, options, then, ticket);
}
