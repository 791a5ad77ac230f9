/* SPDX-License-Identifier: MIT */
#include <troupe/ask.h>

#include "actor/op.h"
#include "actor/send.h"
#include "base/clock.h"
#include "system/system.h"

#include <poll.h>

/* troupe_ask_wait(): an operation without an actor that sleeps on a futex. */

struct wait {
    troupe_system *system;
    struct trp_op *op;
    uint64_t due_ns; /* on the clock of the system's alarms */
};

static bool
is_answered(struct trp_op *op)
{
    return trp_load_acquire(&op->link) != 0; /* pairs: op.signal */
}

/* Nothing can run. False: the deadline has come. */
static bool
rest_driven(const struct wait *wait)
{
    troupe_system *system = wait->system;
    struct trp_sched *sched = &system->core.sched;
    uint64_t next_ns = trp_alarm_next(sched);
    uint64_t now_ns = trp_alarm_now(sched);
    struct pollfd fd = {.fd = troupe_system_fd(system), .events = POLLIN};

    if (now_ns >= wait->due_ns) {
        return false;
    }
    next_ns = next_ns < wait->due_ns ? next_ns : wait->due_ns;
    if (system->is_simulation) {
        if (next_ns == TRP_ALARM_NEVER) {
            return false; /* nothing will ever happen */
        }
        trp_system_move_clock(system, next_ns);
    } else if (next_ns > now_ns) {
        uint64_t ms = (next_ns - now_ns + 999999) / 1000000;

        poll(&fd, 1, ms > 1000 ? 1000 : (int)ms);
    }
    return true;
}

static void
await(const struct wait *wait)
{
    if (wait->system->core.sched.driven) {
        do {
            trp_system_turn(wait->system, 0);
        } while (!is_answered(wait->op) && rest_driven(wait));
    } else {
        while (!is_answered(wait->op) &&
               trp_futex_wait(&wait->op->link, 0, wait->due_ns)) {
        }
    }
    if (!is_answered(wait->op) && trp_op_end(wait->op)) {
        wait->op->item.mark = 0;
        wait->op->status = TROUPE_E_TIMEOUT;
        return;
    }
    while (!is_answered(wait->op)) { /* it is being written */
        (void)trp_futex_wait(&wait->op->link, 0, TRP_FUTEX_FOREVER);
    }
}

/* What came, as an owned message or a failure. */
static void
read_answer(struct trp_core *core, struct trp_local *local, struct trp_op *op,
    troupe_answer *answer)
{
    struct trp_item item = op->item;
    struct trp_box *box;
    troupe_msg view;

    answer->status = (troupe_status)op->status;
    if (item.mark == 0) {
        return;
    }
    trp_book(core, local, answers, UINT64_MAX);
    trp_book(core, local, handled, 1);
    trp_item_view(&item, &view);
    if (view.type->tag == TROUPE_TAG_FAILURE) {
        const troupe_failure *failure = view.payload;

        answer->status = failure->status;
        answer->code = failure->code;
        return;
    }
    box = trp_item_own(core, local, &item);
    if (box == NULL) {
        trp_item_release(local, &item);
        answer->status = TROUPE_E_NOMEM;
        return;
    }
    box->msg.sender = view.sender;
    answer->reply = &box->msg;
}

static bool
is_closing(struct trp_core *core)
{
    return trp_load_acquire(&core->closing) != 0; /* pairs: system.closing */
}

/*
 * An answer has one status, whether it comes from the call or from later on, so
 * the payload goes with either; but for mistakes, which come from the call
 * only.
 */
static troupe_status
refuse(const struct trp_sending *sending, const troupe_msg_type *type,
    const void *payload, troupe_status status)
{
    bool is_mistake = status == TROUPE_E_INVALID || status == TROUPE_E_STATE ||
                      status == TROUPE_E_CONTEXT || status == TROUPE_E_FORKED;

    if (!is_mistake && type != NULL && payload != NULL) {
        trp_send_lose(sending, type, payload, type->bytes);
    }
    return status;
}

troupe_status
troupe_ask_wait(troupe_system *system, troupe_ref whom,
    const troupe_msg_type *type, const void *payload, uint64_t timeout_ns,
    troupe_answer *answer)
{
    static const char call[] = "troupe_ask_wait";
    struct trp_sending sending = {.to = whom, .mark = TRP_MARK_ASK};
    struct wait wait = {.system = system};
    troupe_status status = TROUPE_OK;
    struct trp_core *core;

    if (answer == NULL) {
        return trp_refuse(
            TROUPE_E_INVALID, call, "answer", "must not be NULL", "NULL");
    }
    *answer = (troupe_answer){.status = TROUPE_OK};
    if (trp_thread.worker != NULL) {
        status = trp_refuse(TROUPE_E_CONTEXT, call, "thread",
            "must not be inside a behaviour", "%s", "worker");
    } else {
        status = trp_send_outside(system, call, &sending);
    }
    if (status != TROUPE_OK) {
        return answer->status = refuse(&sending, type, payload, status);
    }
    core = &system->core;
    wait.op = trp_op_open_foreign(core);
    if (wait.op == NULL) {
        return answer->status = refuse(&sending, type, payload, TROUPE_E_NOMEM);
    }
    sending.sender = trp_op_ref(core, wait.op);
    wait.due_ns = trp_clock_after(trp_alarm_now(&core->sched),
        timeout_ns != TROUPE_TIMEOUT_DEFAULT ? timeout_ns
                                             : core->ask_timeout_ns);
    answer->status =
        trp_send_copy(&sending, type, payload, type != NULL ? type->bytes : 0);
    if (answer->status == TROUPE_OK) {
        await(&wait);
        read_answer(core, sending.local, wait.op, answer);
        if (answer->status == TROUPE_E_DEAD && is_closing(core)) {
            answer->status = TROUPE_E_CLOSED;
        }
    } else {
        (void)refuse(&sending, type, payload, answer->status);
    }
    trp_op_close_foreign(core, sending.local, wait.op);
    return answer->status;
}
