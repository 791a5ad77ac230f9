/* SPDX-License-Identifier: MIT */
#ifndef TROUPE_PORT_H
#define TROUPE_PORT_H

#include <troupe/exit.h>
#include <troupe/mailbox.h>

TROUPE_BEGIN_DECLS

/*
 * A mailbox drained by a thread troupe does not own: an epoll, libuv or GLib
 * loop. Actors send to its ref; the loop polls its descriptor, which is
 * readable while the port is not empty (level-triggered: a loop that stops
 * half-way is called again). Drained to NULL it is unreadable again; now and
 * then it shows readable once more for a message that was taken already. Never
 * read, write or close the descriptor. One thread at a time uses a port; any
 * thread may open and close it. `name` NULL = a generated one. E_EXISTS,
 * E_CLOSED, E_INVALID (name), E_SYSTEM (no descriptor), E_LIMIT, E_NOMEM. Close
 * before the system is destroyed; what is left becomes dead letters, later
 * sends get TROUPE_E_DEAD, and its watches end.
 */
TROUPE_API TROUPE_NODISCARD troupe_status troupe_port_open(
    troupe_system *system, const char *name, troupe_port **port);
TROUPE_API void troupe_port_close(troupe_port *port); /* NULL is allowed */
TROUPE_API troupe_ref troupe_port_ref(const troupe_port *port);
TROUPE_API int troupe_port_fd(const troupe_port *port);

/*
 * The next message, borrowed until the next call on this port, or NULL when
 * there is none. Questions that have expired (TROUPE_MSG_EXPIRES) are not
 * shown. Stop whenever you like; the descriptor stays readable:
 *
 *     for (int n = 0; n < 64 && (msg = troupe_port_next(port)); n++)
 */
TROUPE_API const troupe_msg *troupe_port_next(troupe_port *port);

/* Keeps the message of the last troupe_port_next(); as troupe_take(). */
TROUPE_API TROUPE_NODISCARD troupe_status troupe_port_take(
    troupe_port *port, troupe_msg **msg);

/* Like send and tell, with the port as sender: replies come back here. */
TROUPE_API TROUPE_NODISCARD troupe_status troupe_port_send(troupe_port *port,
    troupe_ref to, const troupe_msg_type *type, const void *payload);
TROUPE_API TROUPE_NODISCARD troupe_status troupe_port_send_msg(
    troupe_port *port, troupe_ref to, troupe_msg *msg);
TROUPE_API void troupe_port_tell(troupe_port *port, troupe_ref to,
    const troupe_msg_type *type, const void *payload);

/*
 * TROUPE_TAG_DOWN (exit.h) arrives on the port once `whom` has stopped, at once
 * if it has already; where there is no memory to store it then, it is a dead
 * letter (TROUPE_DEAD_REFUSED). Watching twice is watching once, until the
 * notice has been read. E_INVALID for TROUPE_NONE and the port itself, E_NOMEM.
 */
TROUPE_API TROUPE_NODISCARD troupe_status troupe_port_watch(
    troupe_port *port, troupe_ref whom);

TROUPE_END_DECLS

#endif /* TROUPE_PORT_H */
