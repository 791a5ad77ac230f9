/* SPDX-License-Identifier: MIT */
#include "pattern/retry.h"

#include "actor/op.h"
#include "base/backoff.h"

#include <string.h>

/*
 * troupe_retry(): two operations of the actor, one after the other or at once.
 *
 *   outer   what the caller has a ticket of: ends with the whole
 *   inner   the present attempt, or the pause before the next one; it may end
 *           while the actor awaits the outer one
 *
 * Each of them has a continuation that runs once, so the state, a box, is given
 * back by the second of them.
 */

struct retry {
    troupe_retry_options options;
    troupe_backoff backoff;
    troupe_attempt_fn attempt;
    troupe_continuation then;
    struct trp_box *payload; /* NULL: none */
    uint64_t end_ns;         /* of the whole, or TRP_ALARM_NEVER */
    troupe_ticket outer, inner;
    uint32_t number; /* of the present attempt */
    uint32_t refs;
};

static const troupe_msg_type state_type = {
    sizeof(troupe_msg_type), "retry", 0, TROUPE_TAG_RESERVED, 0, NULL};

static void
release(struct troupe_self *self, struct retry *retry)
{
    if (--retry->refs == 0) {
        if (retry->payload != NULL) {
            trp_box_forget(self->local, retry->payload);
        }
        trp_box_forget(self->local, (struct trp_box *)(void *)retry - 1);
    }
}

static troupe_verdict on_attempt(
    troupe_self *self, void *state, const troupe_result *result, void *user);
static troupe_verdict on_pause(
    troupe_self *self, void *state, const troupe_result *result, void *user);

/*
 * The whole has ended: OK with the answer that is current, or as told. It may
 * have ended already, cancelled or at its deadline.
 */
static void
end_outer(struct troupe_self *self, struct retry *retry, troupe_status status,
    int32_t code)
{
    struct trp_op *outer = trp_op_find(self, retry->outer);

    if (outer == NULL || !trp_op_end_with(self, outer, status)) {
        return;
    }
    outer->code = code;
    if (status == TROUPE_OK && self->current.msg != NULL &&
        self->current.spent == 0) {
        trp_item_assign(&outer->item, self->current.item);
        self->current.spent |= TRP_SPENT_TAKEN | TRP_SPENT_AWAY;
        trp_book(self->core, self->local, answers, 1);
        trp_book(self->core, self->local, handled, UINT64_MAX);
    }
}

/* A continuation more to come: that of an attempt, or of a pause. */
static void
expect_inner(struct troupe_self *self, struct retry *retry)
{
    struct trp_op *inner = trp_op_find(self, retry->inner);

    if (inner != NULL) {
        trp_op_make_inner(self, inner);
    }
    retry->refs++;
}

/* True: a further attempt is due now. Else a pause has begun, or it is over. */
static bool
after_failure(struct troupe_self *self, struct retry *retry,
    troupe_status status, int32_t code)
{
    const troupe_retry_options *options = &retry->options;
    uint32_t number = retry->number;
    uint64_t pause_ns = 0;

    if (options->attempted != NULL) {
        options->attempted(number, status, code, options->user);
    }
    if (number == options->attempts) {
        end_outer(self, retry, status, code);
        return false;
    }
    if (options->backoff != NULL) {
        pause_ns = trp_backoff_delay_ns(&retry->backoff, number - 1);
    }
    if (trp_clock_after(trp_alarm_now(&self->core->sched), pause_ns) >=
        retry->end_ns) {
        end_outer(self, retry, TROUPE_E_TIMEOUT, code);
        return false;
    }
    if (options->should_retry != NULL &&
        !options->should_retry(number, status, code, options->user)) {
        end_outer(self, retry, status, code);
        return false;
    }
    if (pause_ns == 0) {
        return true;
    }
    status = troupe_sleep(
        self, pause_ns, troupe_then(on_pause, retry), &retry->inner);
    if (status == TROUPE_OK) {
        expect_inner(self, retry);
    } else {
        end_outer(self, retry, status, 0);
    }
    return false;
}

/* The next attempt; those that cannot even begin have failed. */
static void
try_next(struct troupe_self *self, void *state, struct retry *retry)
{
    const void *payload =
        retry->payload != NULL ? retry->payload->msg.payload : NULL;
    troupe_status status;

    do {
        retry->number++;
        retry->inner = (troupe_ticket){0};
        status = retry->attempt(self, state, retry->number, payload,
            troupe_then(on_attempt, retry), &retry->inner);
        if (status == TROUPE_OK) {
            expect_inner(self, retry);
            return;
        }
    } while (after_failure(self, retry, status, 0));
}

static bool
is_over(struct troupe_self *self, const struct retry *retry)
{
    struct trp_op *outer = trp_op_find(self, retry->outer);

    return outer == NULL || !trp_op_is_pending(outer);
}

static troupe_verdict
on_pause(
    troupe_self *self, void *state, const troupe_result *result, void *user)
{
    struct retry *retry = user;

    if (!is_over(self, retry)) {
        if (result->status == TROUPE_OK) {
            try_next(self, state, retry);
        } else {
            end_outer(self, retry, result->status, 0); /* the actor ends */
        }
    }
    release(self, retry);
    return TROUPE_CONTINUE;
}

static troupe_verdict
on_attempt(
    troupe_self *self, void *state, const troupe_result *result, void *user)
{
    struct retry *retry = user;
    troupe_status status = result->status;

    if (!is_over(self, retry)) {
        if (status == TROUPE_OK || status == TROUPE_E_CANCELLED ||
            status == TROUPE_E_CLOSED) {
            end_outer(self, retry, status, result->code);
        } else if (after_failure(self, retry, status, result->code)) {
            try_next(self, state, retry);
        }
    }
    release(self, retry);
    return TROUPE_CONTINUE;
}

static troupe_verdict
on_end(troupe_self *self, void *state, const troupe_result *result, void *user)
{
    struct retry *retry = user;
    troupe_continuation then = retry->then;

    (void)troupe_cancel(self, retry->inner);
    release(self, retry);
    return then.fn(self, state, result, then.user);
}

/* The state, with all that is copied into it; NULL: no memory. */
static struct retry *
make(struct troupe_self *self, const troupe_retry_options *options,
    const troupe_msg_type *type, const void *payload)
{
    struct trp_box *box =
        trp_box_new(self->core, self->local, &state_type, sizeof(struct retry));
    struct retry *retry = NULL;

    if (box == NULL) {
        return NULL;
    }
    retry = box->msg.payload;
    retry->options = *options;
    retry->refs = 1;
    retry->end_ns = TRP_ALARM_NEVER;
    if (options->backoff != NULL) {
        retry->backoff = *options->backoff;
        retry->options.backoff = &retry->backoff;
    }
    if (payload != NULL) {
        retry->payload =
            trp_box_new(self->core, self->local, type, type->bytes);
        if (retry->payload == NULL) {
            release(self, retry);
            return NULL;
        }
        memcpy(retry->payload->msg.payload, payload, type->bytes);
    }
    return retry;
}

static troupe_status
check(const char *call, const troupe_self *self, troupe_attempt_fn attempt,
    troupe_continuation then, const troupe_msg_type *type, const void *payload)
{
    if (self == NULL || attempt == NULL || then.fn == NULL) {
        return trp_refuse(TROUPE_E_INVALID, call,
            self == NULL      ? "self"
            : attempt == NULL ? "attempt"
                              : "then.fn",
            "must not be NULL", "NULL");
    }
    if (type != NULL && type->drop != NULL) {
        return trp_refuse(TROUPE_E_INVALID, call, "type",
            "owns something: it cannot be sent again", "%s",
            trp_type_name(type));
    }
    return type != NULL || payload != NULL
               ? trp_message_check(
                     call, type, payload, type != NULL ? type->bytes : 0)
               : TROUPE_OK;
}

troupe_status
troupe_retry(troupe_self *self, const troupe_retry_options *given,
    troupe_attempt_fn attempt, const troupe_msg_type *type, const void *payload,
    troupe_continuation then, troupe_ticket *ticket)
{
    static const char call[] = "troupe_retry";
    troupe_status status = check(call, self, attempt, then, type, payload);
    troupe_retry_options options;
    troupe_backoff backoff;
    struct retry *retry;
    struct trp_op *outer;

    if (status == TROUPE_OK) {
        status = trp_retry_copy(&options, &backoff, given, call);
    }
    if (status != TROUPE_OK) {
        return status;
    }
    retry = make(self, &options, type, payload);
    if (retry == NULL) {
        return TROUPE_E_NOMEM;
    }
    retry->attempt = attempt;
    retry->then = then;
    outer = trp_op_open(self, call,
        options.deadline_ns != 0 ? options.deadline_ns : TROUPE_FOREVER,
        troupe_then(on_end, retry), &status);
    if (outer == NULL) {
        release(self, retry);
        return status;
    }
    retry->end_ns = options.deadline_ns != 0 ? outer->due_ns : TRP_ALARM_NEVER;
    retry->outer.id = trp_op_ticket(self->core, outer);
    if (ticket != NULL) {
        *ticket = retry->outer;
    }
    try_next(self, trp_cell_state(self->cell), retry);
    return TROUPE_OK;
}
