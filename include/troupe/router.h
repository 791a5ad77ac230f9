/* SPDX-License-Identifier: MIT */
#ifndef TROUPE_ROUTER_H
#define TROUPE_ROUTER_H

#include <troupe/gather.h>

TROUPE_BEGIN_DECLS

/*
 * A router's ref is a ref like any other: what is sent to it goes to its
 * routees, on the thread that sends, sender kept. docs/routers.md has the whole
 * story.
 */
typedef enum troupe_routing {
    TROUPE_ROUTE_ROUND_ROBIN = 0,
    TROUPE_ROUTE_RANDOM = 1,
    TROUPE_ROUTE_BROADCAST = 2,
    TROUPE_ROUTE_SMALLEST_MAILBOX = 3, /* ties rotate */
    TROUPE_ROUTE_CONSISTENT_HASH = 4,  /* needs key or key_bytes; weights */
    TROUPE_ROUTE_WEIGHTED = 5,         /* needs weights */
    TROUPE_ROUTE_LEAST_IN_FLIGHT = 6,  /* counts the one being handled */
    TROUPE_ROUTE_TWO_CHOICES = 7,
    TROUPE_ROUTE_CUSTOM = 8, /* needs pick */
    /*
     * Asks all of them, in the router's turn, and answers once: with the
     * winner's message, sender kept, with the troupe_gathered, or with a
     * failure. What has no sender is not asked: a dead letter.
     */
    TROUPE_ROUTE_GATHER = 9
} troupe_routing;

/* What a strategy sees; borrowed. */
typedef struct troupe_route {
    size_t size;
    const troupe_system *system;
    const troupe_ref *routees; /* the live ones, in order */
    size_t count;              /* at least 1 */
    uint64_t index;            /* 0 for the first message, +1 each */
    const troupe_msg *msg;
} troupe_route;

/*
 * Writes targets (any refs, repeats allowed) and returns how many, 0 = none: a
 * send gets E_NO_ROUTE, a tell is a dead letter. `capacity` is `count`, at
 * least 16; beyond it is cut. Runs on the sender's thread, many at once,
 * outside every lock: a pure function, or atomics in `user`. Must not block,
 * and not send to this router. With TROUPE_ROUTER_SERIAL one call at a time, in
 * the router's turn.
 */
typedef size_t (*troupe_pick_fn)(const troupe_route *route, troupe_ref *targets,
    size_t capacity, void *user) TROUPE_NOEXCEPT;

/* Same key, same routee. Like pick: many threads. */
typedef uint64_t (*troupe_key_fn)(
    const troupe_msg *msg, void *user) TROUPE_NOEXCEPT;
/*
 * Points into the payload; NULL = none. Hashed as the UTF-16 code units of
 * UTF-8, for systems that do so.
 */
typedef const void *(*troupe_key_bytes_fn)(
    const troupe_msg *msg, size_t *bytes, void *user)TROUPE_NOEXCEPT;

enum {
    TROUPE_ROUTER_SERIAL = 1u << 0, /* route in the router's turn: one hop */
    /*
     * Of a pool: replace a routee that stopped for good. If it lived for less
     * than 1 s, after 0.1 s, 0.2 s, .. 10 s.
     */
    TROUPE_ROUTER_RESPAWN = 1u << 1
};

/*
 * A pool that sizes itself, by what it gets: nothing polls. Not for gathers.
 */
typedef struct troupe_resizer_options {
    size_t size;
    uint32_t lower;          /* 0 = 1 */
    uint32_t upper;          /* required, >= lower */
    uint32_t pressure_depth; /* busy at this depth; 0 = 1 */
    uint32_t step_percent;   /* growth when all are busy; 0 = 20 */
    uint32_t idle_percent;   /* shrink when fewer are busy; 0 = 30 */
    uint32_t reserved;
    uint64_t cooldown_ns; /* 0 = 5 s */
} troupe_resizer_options;

/*
 * A pool (type and routees) or a group (members), never both. Copied. What the
 * routing does not use must be zero, but for `seed` and `user`.
 */
typedef struct troupe_router_options {
    size_t size;
    const char *name; /* of the router */
    troupe_routing routing;
    uint32_t flags;                             /* TROUPE_ROUTER_* */
    const troupe_actor_type *type;              /* pool: of routee-1.. */
    const troupe_spawn_options *routee_options; /* each; without a name */
    const troupe_ref *members;     /* group: actors, ports, each of them once */
    uint32_t routees;              /* how many; 1 to 1000000 */
    uint32_t bounded_load_percent; /* hash: spill over the mean; 0 = never */
    const uint32_t *weights;       /* one per routee, sum 1 to 2^32 - 1; of
                                      WEIGHTED, and of CONSISTENT_HASH if given */
    troupe_pick_fn pick;
    troupe_key_fn key;
    troupe_key_bytes_fn key_bytes;
    void *user;    /* of pick, key, key_bytes */
    uint64_t seed; /* random, two choices; 0 = the system's */
    const troupe_gather_options *gather;   /* NULL: its defaults */
    const troupe_resizer_options *resizer; /* NULL: none */
} troupe_router_options;

/*
 * Its routees are spawned in its first turn, before it routes anything; what is
 * sent until then waits. It watches them, takes out who has stopped, and stops
 * its pool when it stops. Refused as troupe_spawn() does; E_INVALID names the
 * option.
 */
TROUPE_API TROUPE_NODISCARD troupe_status troupe_spawn_router(troupe_self *self,
    const troupe_router_options *options, troupe_ref *router);
TROUPE_API TROUPE_NODISCARD troupe_status troupe_system_spawn_router(
    troupe_system *system, const troupe_router_options *options,
    troupe_ref *router);

/*
 * To all live routees, whatever the strategy; uses no index. One copy each,
 * counted as sent; a copy that is refused is a dead letter, unless there is but
 * one routee. As troupe_send(), and E_NO_ROUTE: there is no routee; E_INVALID:
 * the payload owns something and its type is not TROUPE_MSG_SHARED, with more
 * than one routee, or `router` is none.
 */
TROUPE_API TROUPE_NODISCARD troupe_status troupe_broadcast(troupe_self *self,
    troupe_ref router, const troupe_msg_type *type, const void *payload);
TROUPE_API TROUPE_NODISCARD troupe_status troupe_post_broadcast(
    troupe_system *system, troupe_ref router, const troupe_msg_type *type,
    const void *payload);

/*
 * Orders, from any thread: they return, and the router obeys in its turn.
 * E_INVALID: `router` is none; E_DEAD: it has gone; E_STATE: resize of a group,
 * add to a pool; E_CLOSED, E_NOMEM. What lacks memory in its turn is logged; a
 * resize is tried again.
 */
TROUPE_API TROUPE_NODISCARD troupe_status troupe_router_resize(
    troupe_system *system, troupe_ref router, uint32_t routees);
/* Who is a member already stays it, once. Weight 1. */
TROUPE_API TROUPE_NODISCARD troupe_status troupe_router_add(
    troupe_system *system, troupe_ref router, troupe_ref member);
/* A routee of a pool drains: it handles what it has, and stops. */
TROUPE_API TROUPE_NODISCARD troupe_status troupe_router_remove(
    troupe_system *system, troupe_ref router, troupe_ref member);
/* troupe_stop to each, a member of a group as well; with RESPAWN others come */
TROUPE_API troupe_status troupe_router_stop_routees(
    troupe_system *system, troupe_ref router);
/* Fills up to `capacity`, returns how many there are; 0: none, or no router. */
TROUPE_API size_t troupe_router_routees(const troupe_system *system,
    troupe_ref router, troupe_ref *routees, size_t capacity);

/* Since the router was spawned; at a quiet moment exact. Appended to. */
typedef struct troupe_router_counters {
    size_t size;
    uint64_t routed;       /* messages that a strategy was asked about */
    uint64_t broadcasts;   /* of troupe_broadcast(), and the like */
    uint64_t copies;       /* beyond the first, of what went to several */
    uint64_t empty;        /* that found nobody: E_NO_ROUTE */
    uint64_t refused;      /* by who was picked, copies included */
    uint64_t waited;       /* routed in the router's turn */
    uint64_t pick_samples; /* one of 64 picks is timed */
    uint64_t pick_ns;      /* what all those took */
    uint64_t routees;      /* now */
} troupe_router_counters;

/* E_INVALID, E_VERSION: as troupe_counters_read(); E_DEAD. Any thread. */
TROUPE_API troupe_status troupe_router_counters_read(
    const troupe_system *system, troupe_ref router,
    troupe_router_counters *counters);

TROUPE_END_DECLS

#endif /* TROUPE_ROUTER_H */
