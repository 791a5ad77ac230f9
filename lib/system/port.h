/* SPDX-License-Identifier: MIT */
#ifndef TRP_SYSTEM_PORT_H
#define TRP_SYSTEM_PORT_H

/*
 * A port is a cell whose turns a foreign thread takes. Its descriptor holds a
 * token that stands for S of its ring:
 *
 *     sender   CAS sets S (was clear)      then puts one token in
 *     owner    takes the token out         then CAS clears S
 *
 *   P1  S set <=> one token is in the descriptor, or on its way into it, or in
 *       the owner's hands inside troupe_port_next().
 *   P2  So a message that waits keeps the descriptor readable: the owner takes
 *       the token out only when it finds nothing, and puts it back when the CAS
 *       finds that something came (ring not empty, or a sender is writing).
 *   P3  If the token is still on its way the owner leaves S set and says
 *       "nothing": the token will arrive, the loop will come back.
 *   P4  Closing waits for the token: no sender touches the port afterwards.
 *
 * Edges: ring.claim hands the ring over; the descriptor orders nothing.
 */

#include <troupe/port.h>

#include "actor/message.h"
#include "os/notify.h"

struct troupe_port {
    /* constant while open */
    struct troupe_system *system;
    struct trp_cell *cell;
    troupe_ref ref;
    struct trp_notify notify; /* any thread puts a token in */

    /* the thread that uses the port */
    bool owns; /* S is ours */
    struct trp_watching watching;
    struct trp_cursor cursor;
    struct trp_current current; /* item and view, while they are borrowed */
    struct trp_item item;
    troupe_msg view;
};

/* troupe_port_open() that works while the system is closing, too. */
troupe_status trp_port_open(troupe_system *system, const char *name,
    const char *call, troupe_port **port);

#endif /* TRP_SYSTEM_PORT_H */
