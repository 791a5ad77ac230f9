/* SPDX-License-Identifier: MIT */
#ifndef TROUPE_INSPECT_H
#define TROUPE_INSPECT_H

#include <troupe/types.h>

TROUPE_BEGIN_DECLS

typedef enum troupe_actor_state {
    TROUPE_STATE_STARTING = 0,
    TROUPE_STATE_RUNNING = 1,
    TROUPE_STATE_SUSPENDED = 2, /* it has failed, or one above it has */
    TROUPE_STATE_AWAITING = 3,  /* parked by troupe_await() */
    TROUPE_STATE_STOPPING = 4
} troupe_actor_state;

/* Borrowed; consistent in itself, stale when you see it. May grow. */
typedef struct troupe_actor_info {
    size_t size;
    troupe_ref actor;
    troupe_ref parent;
    troupe_actor_state state;
    uint32_t depth;
    uint64_t handled; /* messages taken from its mailbox and not stashed */
    const char *path;
    const char *type; /* "" for /user, /system and ports */
} troupe_actor_info;

/*
 * Parents first; return false to end. Any thread, system under full load: it
 * looks at a snapshot and costs a pass over all cells; for each path it takes
 * the lock of names, which no send needs. A path is cut at 4095 bytes.
 * `subtree` is a path as for troupe_lookup(), NULL = all; E_MISSING when nobody
 * is there, E_NOMEM. `visit` may call the library.
 */
typedef bool (*troupe_inspect_fn)(
    const troupe_actor_info *info, void *user) TROUPE_NOEXCEPT;
TROUPE_API troupe_status troupe_inspect(troupe_system *system,
    const char *subtree, troupe_inspect_fn visit, void *user);

/*
 * Workers, queues and the deepest mailboxes as text; takes no lock and does not
 * allocate. Any thread.
 */
TROUPE_API void troupe_dump(const troupe_system *system, int fd);

TROUPE_END_DECLS

#endif /* TROUPE_INSPECT_H */
