/* SPDX-License-Identifier: MIT */
#include "actor/delayed.h"

#include "actor/mailbox.h"
#include "actor/send.h"

#include <troupe/timer.h>

enum { FREE = 0, PENDING = 1, CANCELLED = 2, LEFT = 3 };

#define GENERATION (UINT64_C(1) << 32)

static uint64_t
with_state(uint64_t life, uint64_t state)
{
    return (life & ~(GENERATION - 1)) | state;
}

static struct trp_delayed *
at(const struct trp_core *core, uint32_t unit)
{
    return trp_pool_address(&core->delayed, unit);
}

/* Nobody else has it; its item is the caller's. */
static void
give_back(struct trp_core *core, struct trp_local *local,
    struct trp_delayed *delayed, uint64_t life)
{
    trp_store_release(&delayed->life, /* pairs: delayed.life */
        with_state(life + GENERATION, FREE));
    trp_book(core, local, timers, UINT64_MAX);
    trp_pool_give(&core->delayed, NULL, trp_pool_unit(&core->delayed, delayed));
}

/* The same, and it is not sent. */
static void
discard(struct trp_core *core, struct trp_local *local,
    struct trp_delayed *delayed, uint64_t life)
{
    trp_item_release(local, &delayed->item);
    give_back(core, local, delayed, life);
}

/* It was cancelled, and the other one has it as well. */
static void
leave(struct trp_core *core, struct trp_local *local,
    struct trp_delayed *delayed, uint64_t life)
{
    uint64_t left = with_state(life, LEFT);

    if (trp_swap_acq_rel(&delayed->life, left) == left) { /* pairs:
                                                             delayed.life */
        discard(core, local, delayed, life);
    }
}

static void
fire(struct trp_worker *worker, struct trp_alarm *alarm)
{
    struct trp_delayed *delayed =
        TRP_CONTAINER_OF(alarm, struct trp_delayed, alarm);
    struct trp_local *local = worker->local;
    struct trp_core *core = local->self.core;
    uint64_t life = trp_load_acquire(&delayed->life); /* pairs: delayed.life */
    uint64_t pending = with_state(life, PENDING);
    struct trp_item item;
    troupe_status status;
    troupe_ref to;

    if (!trp_cas_acq_rel(&delayed->life, &pending, /* pairs: delayed.life */
            with_state(life, FREE))) {
        leave(core, local, delayed, life);
        return;
    }
    item = delayed->item;
    to = delayed->to;
    give_back(core, local, delayed, life);
    trp_book(core, local, sent, 1);
    status = trp_mailbox_deliver(core, local, to, &item);
    if (status != TROUPE_OK) {
        trp_item_bury(core, local, to, &item, trp_send_reason(to, status));
    }
}

static uint32_t
id_generation(const struct trp_core *core, uint64_t life)
{
    return (uint32_t)(life >> 32) + core->first_generation;
}

static troupe_status
start(const struct trp_sending *sending, const troupe_msg_type *type,
    const void *payload, uint64_t delay_ns, troupe_delayed *id)
{
    struct trp_core *core = sending->core;
    struct trp_delayed *delayed;
    struct trp_item item;
    troupe_status status;
    uint64_t life;
    uint32_t unit;

    if (troupe_ref_is_none(sending->to)) {
        return trp_refuse(TROUPE_E_INVALID, sending->call, "to",
            "must not be TROUPE_NONE", "TROUPE_NONE");
    }
    status = trp_send_make(
        sending, type, payload, type != NULL ? type->bytes : 0, &item);
    if (status != TROUPE_OK) {
        return status;
    }
    unit = trp_pool_take(&core->delayed, NULL, 0);
    if (unit == TRP_POOL_NONE) {
        trp_send_unmake(sending, &item);
        return TROUPE_E_NOMEM;
    }
    (void)trp_send_move_on(sending, type, payload, type->bytes);
    delayed = at(core, unit);
    delayed->alarm.fire = fire;
    delayed->to = sending->to;
    delayed->item = item;
    life = trp_load_relaxed(&delayed->life); /* relaxed: ours */
    trp_store_release(&delayed->life,        /* pairs: delayed.life */
        with_state(life, PENDING));
    trp_book(core, sending->local, timers, 1);
    if (id != NULL) {
        id->id = (uint64_t)id_generation(core, life) << 32 | unit;
    }
    (void)trp_alarm_set(&core->sched, &delayed->alarm,
        trp_clock_after(trp_alarm_now(&core->sched), delay_ns));
    return TROUPE_OK;
}

troupe_status
troupe_send_after(troupe_self *self, troupe_ref to, const troupe_msg_type *type,
    const void *payload, uint64_t delay_ns, troupe_delayed *delayed)
{
    struct trp_sending sending = {.call = "troupe_send_after", .to = to};

    if (self == NULL) {
        return trp_refuse(
            TROUPE_E_INVALID, sending.call, "self", "must not be NULL", "NULL");
    }
    sending.core = self->core;
    sending.local = self->local;
    sending.sender = self->ref;
    return start(&sending, type, payload, delay_ns, delayed);
}

troupe_status
troupe_post_after(troupe_system *system, troupe_ref to,
    const troupe_msg_type *type, const void *payload, uint64_t delay_ns,
    troupe_delayed *delayed)
{
    struct trp_sending sending = {.to = to};
    troupe_status status =
        trp_send_outside_uncounted(system, "troupe_post_after", &sending);

    return status == TROUPE_OK
               ? start(&sending, type, payload, delay_ns, delayed)
               : status;
}

bool
troupe_delayed_cancel(troupe_system *system, troupe_delayed id)
{
    struct trp_core *core = trp_core_of(system);
    uint32_t unit = (uint32_t)id.id;
    struct trp_delayed *delayed;
    struct trp_local *local;
    uint64_t life;

    if (system == NULL || unit == TRP_POOL_NONE || !trp_core_is_alive(core) ||
        unit >= trp_load_acquire(&core->delayed.class[0].committed)) { /* pairs:
                                                                pool.commit */
        return false;
    }
    local = trp_local_here(core);
    delayed = at(core, unit);
    life = trp_load_acquire(&delayed->life); /* pairs: delayed.life */
    if (life != with_state(life, PENDING) ||
        id_generation(core, life) != id.id >> 32 ||
        !trp_cas_acq_rel(&delayed->life, &life, /* pairs: delayed.life */
            with_state(life, CANCELLED))) {
        return false;
    }
    if (trp_alarm_cancel(&core->sched, &delayed->alarm)) {
        discard(core, local, delayed, life);
    } else {
        leave(core, local, delayed, life);
    }
    return true;
}

void
trp_delayed_fini(struct trp_core *core)
{
    /* In a forked child what payloads own is the parent's as well. */
    bool drop = core->alive != NULL && trp_core_is_alive(core);
    uint32_t end;

    if (core->delayed.base == NULL) {
        return;
    }
    /* relaxed, all of them: no other thread is left. */
    end = trp_load_relaxed(&core->delayed.class[0].bump);
    for (uint32_t unit = 1; unit < end; unit++) {
        struct trp_delayed *delayed = at(core, unit);
        uint64_t life = trp_load_relaxed(&delayed->life); /* relaxed: same */

        if (life != with_state(life, PENDING)) {
            continue;
        }
        if (drop) {
            trp_item_release(NULL, &delayed->item);
        } else if (trp_item_box_or_null(&delayed->item) != NULL) {
            trp_box_release(NULL, trp_item_box(&delayed->item), false);
        }
    }
}
