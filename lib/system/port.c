/* SPDX-License-Identifier: MIT */
#include "system/port.h"

#include "actor/op.h"
#include "actor/send.h"
#include "actor/watch.h"
#include "base/cpu.h"
#include "os/thread.h"
#include "system/spawn.h"
#include "system/system.h"

#include <poll.h>

/* Rests before a sender that was preempted is given the processor. */
#define DRAIN_RESTS 40

/* --- open and close ------------------------------------------------------- */

troupe_status
troupe_port_open(troupe_system *system, const char *name, troupe_port **port)
{
    static const char call[] = "troupe_port_open";
    troupe_status status = trp_system_check(system, call);

    if (status == TROUPE_OK && port == NULL) {
        status = trp_refuse(
            TROUPE_E_INVALID, call, "port", "must not be NULL", "NULL");
    }
    if (status == TROUPE_OK && name != NULL) {
        status = trp_spawn_check_name(name, "name", call);
    }
    if (status != TROUPE_OK) {
        return status;
    }
    if (trp_load_acquire(&system->core.closing) != 0) { /* pairs:
                                                           system.closing */
        return TROUPE_E_CLOSED;
    }
    return trp_port_open(system, name, call, port);
}

troupe_status
trp_port_open(troupe_system *system, const char *name, const char *call,
    troupe_port **result)
{
    const struct trp_birth_options options = {.name = name};
    struct trp_birth birth = {.kind = TRP_KIND_PORT, .options = &options};
    struct trp_core *core = &system->core;
    troupe_status status;
    troupe_port *port;

    port = trp_heap_alloc(&core->heap, sizeof *port);
    if (port == NULL) {
        return TROUPE_E_NOMEM;
    }
    port->system = system;
    if (!trp_notify_open(&port->notify)) {
        status = trp_refuse(TROUPE_E_SYSTEM, call, "descriptor",
            "could not be opened", "eventfd");
    } else {
        birth.notify = &port->notify;
        status = trp_cell_create(
            core, trp_local_here(core), core->ports, &birth, &port->ref);
    }
    if (status == TROUPE_E_EXISTS) {
        trp_refuse(status, call, "name", "is taken by a port", "%.20s", name);
    }
    if (status == TROUPE_E_LIMIT) {
        trp_refuse(status, call, "TROUPE_MAX_ACTORS", "are alive already", "%u",
            core->cells.class[0].end - 1);
    }
    if (status != TROUPE_OK) {
        trp_notify_close(&port->notify);
        trp_heap_free(&core->heap, port, sizeof *port);
        return status;
    }
    port->cell = trp_cell_at(core, port->ref.index);
    trp_add_acq_rel(&system->open, 1); /* pairs: system.open */
    *result = port;
    return TROUPE_OK;
}

/* The message of the last troupe_port_next() is not needed any more. */
static void
end_borrow(troupe_port *port)
{
    if (port->current.msg != NULL) {
        if ((port->item.mark & TRP_MARK_ASK) != 0 &&
            (port->current.spent & (TRP_SPENT_AWAY | TRP_SPENT_PASSED)) == 0) {
            (void)trp_op_hold(&port->system->core, port->ref,
                trp_ref_unpack(port->item.sender));
        }
        trp_item_settle(trp_local_here(&port->system->core), &port->item,
            port->current.spent);
    }
    port->current = (struct trp_current){.msg = NULL};
}

/* Blocks for as long as a sender is between its CAS and its write: P4. */
static void
await_token(troupe_port *port)
{
    struct pollfd fd = {.fd = trp_notify_fd(&port->notify), .events = POLLIN};

    while (!trp_notify_clear(&port->notify)) {
        poll(&fd, 1, -1);
    }
}

static void
drain(troupe_port *port, struct trp_local *local)
{
    struct trp_core *core = &port->system->core;
    struct trp_item item;
    int rests = 0;

    if (!port->owns) { /* else the cursor is ahead of what is published */
        trp_cursor_load(&port->cursor, &core->segments, &port->cell->ring);
    }
    for (;;) {
        while (trp_ring_pop(&port->cursor, &port->cell->ring, &item)) {
            trp_watch_bury(core, local, &port->watching, port->ref, &item,
                TROUPE_DEAD_STOPPED);
        }
        if (trp_ring_is_drained(&port->cursor, &core->segments,
                local != NULL ? &local->segments : NULL, &port->cell->ring)) {
            return;
        }
        /* Between two segments, or a sender has not written yet. */
        trp_cpu_relax();
        if (++rests > DRAIN_RESTS) {
            trp_thread_yield();
        }
    }
}

void
troupe_port_close(troupe_port *port)
{
    troupe_exit exit = {.kind = TROUPE_EXIT_STOPPED};
    struct troupe_system *system;
    struct trp_local *local;
    struct trp_core *core;
    uint64_t word;

    if (port == NULL) {
        return;
    }
    system = port->system;
    core = &system->core;
    if (!trp_core_is_alive(core)) {
        return; /* a forked child: the cell is the parent's */
    }
    local = trp_local_here(core);
    end_borrow(port);
    trp_watch_leave(core, &port->watching);
    /* S too: nobody will wake this cell again. */
    word = trp_or_acq_rel(&port->cell->ring.word, /* pairs: ring.claim */
        TRP_RING_CLOSED | TRP_RING_SCHEDULED);
    if ((word & TRP_RING_SCHEDULED) != 0) {
        await_token(port);
    }
    drain(port, local);
    trp_watch_end(core, local, &port->watching);
    exit.actor = port->ref;
    trp_cell_destroy(core, local, port->cell, &exit);
    trp_notify_close(&port->notify);
    trp_heap_free(&core->heap, port, sizeof *port);
    trp_sub_acq_rel(&system->open, 1); /* pairs: system.open */
}

troupe_ref
troupe_port_ref(const troupe_port *port)
{
    return port != NULL ? port->ref : TROUPE_NONE;
}

int
troupe_port_fd(const troupe_port *port)
{
    return port != NULL ? trp_notify_fd(&port->notify) : -1;
}

/* --- receive -------------------------------------------------------------- */

/* S is ours, if it is set at all. */
static bool
own_ring(troupe_port *port)
{
    uint64_t word;

    if (!port->owns) {
        word = trp_load_acquire(&port->cell->ring.word); /* pairs: ring.claim */
        if ((word & TRP_RING_SCHEDULED) == 0) {
            return false;
        }
        port->owns = true;
        trp_cursor_load(
            &port->cursor, &port->system->core.segments, &port->cell->ring);
    }
    return true;
}

/* Nothing was found. True: something came after all. */
static bool
found_more(troupe_port *port, struct trp_local *local)
{
    if (!trp_notify_clear(&port->notify)) {
        return false; /* P3 */
    }
    switch (trp_ring_idle(&port->cursor, &port->system->core.segments,
        local != NULL ? &local->segments : NULL, &port->cell->ring,
        &port->cell->hint)) {
    case TRP_IDLE_DONE:
        port->owns = false;
        return false;
    case TRP_IDLE_MORE:
        trp_notify_raise(&port->notify); /* P2 */
        return true;
    case TRP_IDLE_STALLED:
    case TRP_IDLE_FLAGS:
        break;
    }
    trp_notify_raise(&port->notify); /* P2 */
    return false;
}

static bool
pop(troupe_port *port, struct trp_local *local)
{
    while (!trp_ring_pop(&port->cursor, &port->cell->ring, &port->item)) {
        if (!found_more(port, local)) {
            return false;
        }
    }
    /* A loop may stop here for long: what was taken is not queued. */
    trp_cursor_publish(&port->cursor, &port->cell->ring);
    if (port->cursor.head == 0) {
        trp_count(&trp_cold_of(&port->system->core, port->cell)->wraps, 1);
    }
    return true;
}

/* Nobody waits for the answer any more. */
static void
expire(troupe_port *port, struct trp_local *local)
{
    struct trp_item item = port->item; /* a hook may ask for the next one */

    trp_item_bury(
        &port->system->core, local, port->ref, &item, TROUPE_DEAD_EXPIRED);
}

/* False: a notice that nobody waits for, a question that has expired. */
static bool
is_for_show(troupe_port *port, struct trp_local *local)
{
    struct trp_core *core = &port->system->core;

    if ((port->item.mark & TRP_MARK_NOTICE) != 0) {
        if (!trp_watch_show(core, local, &port->watching, &port->item)) {
            return false;
        }
        trp_watch_settle(core, local, &port->watching);
    }
    if (trp_item_is_expired(core, &port->item)) {
        expire(port, local);
        return false;
    }
    return true;
}

const troupe_msg *
troupe_port_next(troupe_port *port)
{
    struct trp_core *core;
    struct trp_local *local;

    if (port == NULL || !trp_core_is_alive(&port->system->core)) {
        return NULL;
    }
    core = &port->system->core;
    local = trp_local_here(core);
    end_borrow(port);
    if (!own_ring(port)) {
        return NULL;
    }
    do {
        if (!pop(port, local)) {
            return NULL;
        }
    } while (!is_for_show(port, local));
    trp_book(core, local, handled, 1);
    trp_item_view(&port->item, &port->view);
    port->current =
        (struct trp_current){.msg = &port->view, .item = &port->item};
    return &port->view;
}

troupe_status
troupe_port_take(troupe_port *port, troupe_msg **msg)
{
    static const char call[] = "troupe_port_take";
    struct trp_box *box;

    if (port == NULL || msg == NULL) {
        return trp_refuse(TROUPE_E_INVALID, call, port == NULL ? "port" : "msg",
            "must not be NULL", "NULL");
    }
    if (!trp_core_is_alive(&port->system->core)) {
        return TROUPE_E_FORKED;
    }
    if (port->current.msg == NULL || port->current.spent != 0) {
        return trp_refuse(TROUPE_E_STATE, call, "port",
            "has no message to take", "%s",
            port->current.msg != NULL ? "given away" : "none");
    }
    box = trp_item_own(
        &port->system->core, trp_local_here(&port->system->core), &port->item);
    if (box == NULL) {
        return TROUPE_E_NOMEM;
    }
    box->msg.sender = port->view.sender;
    port->current.spent |= TRP_SPENT_TAKEN;
    *msg = &box->msg;
    return TROUPE_OK;
}

/* --- send ----------------------------------------------------------------- */

static troupe_status
from_port(troupe_port *port, troupe_ref to, const char *call,
    struct trp_sending *sending)
{
    troupe_status status;

    if (port == NULL) {
        return trp_refuse(
            TROUPE_E_INVALID, call, "port", "must not be NULL", "NULL");
    }
    sending->to = to;
    sending->sender = port->ref;
    sending->current = &port->current;
    status = trp_send_outside(port->system, call, sending);
    return status;
}

troupe_status
troupe_port_send(troupe_port *port, troupe_ref to, const troupe_msg_type *type,
    const void *payload)
{
    struct trp_sending sending = {.core = NULL};
    troupe_status status = from_port(port, to, "troupe_port_send", &sending);

    return status == TROUPE_OK ? trp_send_copy(&sending, type, payload,
                                     type != NULL ? type->bytes : 0)
                               : status;
}

troupe_status
troupe_port_send_msg(troupe_port *port, troupe_ref to, troupe_msg *msg)
{
    struct trp_sending sending = {.core = NULL};
    troupe_status status =
        from_port(port, to, "troupe_port_send_msg", &sending);

    return status == TROUPE_OK ? trp_send_owned(&sending, msg) : status;
}

void
troupe_port_tell(troupe_port *port, troupe_ref to, const troupe_msg_type *type,
    const void *payload)
{
    if (port != NULL) {
        struct trp_sending sending = {.call = "troupe_port_tell",
            .to = to,
            .sender = port->ref,
            .current = &port->current};

        trp_send_tell_outside(port->system, &sending, type, payload);
    }
}

troupe_status
troupe_port_watch(troupe_port *port, troupe_ref whom)
{
    static const char call[] = "troupe_port_watch";
    struct trp_core *core;

    if (port == NULL) {
        return trp_refuse(
            TROUPE_E_INVALID, call, "port", "must not be NULL", "NULL");
    }
    core = &port->system->core;
    if (!trp_core_is_alive(core)) {
        return TROUPE_E_FORKED;
    }
    if (troupe_ref_is_none(whom) || troupe_ref_equal(whom, port->ref)) {
        return trp_refuse(TROUPE_E_INVALID, call, "whom",
            "must not be TROUPE_NONE or the port itself", "%u", whom.index);
    }
    return trp_watch_add(
        core, trp_local_here(core), &port->watching, port->ref, whom, NULL);
}
