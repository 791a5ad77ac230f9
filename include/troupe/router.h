/* SPDX-License-Identifier: MIT */
#ifndef TROUPE_ROUTER_H
#define TROUPE_ROUTER_H

#include <troupe/actor.h>
#include <troupe/send.h>

TROUPE_BEGIN_DECLS

typedef enum troupe_routing {
    TROUPE_ROUTE_ROUND_ROBIN = 0,
    TROUPE_ROUTE_RANDOM = 1,
    TROUPE_ROUTE_BROADCAST = 2,
    TROUPE_ROUTE_SMALLEST_MAILBOX = 3, /* ties rotate */
    TROUPE_ROUTE_CONSISTENT_HASH = 4,  /* needs key or key_bytes */
    TROUPE_ROUTE_WEIGHTED = 5,         /* needs weights */
    TROUPE_ROUTE_LEAST_IN_FLIGHT = 6,  /* counts the one being handled */
    TROUPE_ROUTE_TWO_CHOICES = 7,
    TROUPE_ROUTE_CUSTOM = 8, /* needs pick */
    TROUPE_ROUTE_GATHER = 9  /* asks many, answers once; gather may be NULL */
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
 * counted dead letter. `capacity` is `count`, at least 16; beyond it is cut.
 * Runs on the sender's thread, many at once: a pure function, or atomics in
 * `user`. With TROUPE_ROUTER_SERIAL one call at a time, in the router's turn.
 */
typedef size_t (*troupe_pick_fn)(const troupe_route *route, troupe_ref *targets,
    size_t capacity, void *user) TROUPE_NOEXCEPT;

/* Same key, same routee. Like pick: many threads. */
typedef uint64_t (*troupe_key_fn)(
    const troupe_msg *msg, void *user) TROUPE_NOEXCEPT;
/* Points into the payload; hashed as in the original, for mixed systems. */
typedef const void *(*troupe_key_bytes_fn)(
    const troupe_msg *msg, size_t *bytes, void *user)TROUPE_NOEXCEPT;

enum {
    TROUPE_ROUTER_SERIAL = 1u << 0, /* route in the router's turn: one hop */
    TROUPE_ROUTER_RESPAWN = 1u << 1 /* replace a routee that stopped for good */
};

typedef struct troupe_resizer_options {
    size_t size;
    uint32_t lower;          /* 0 = 1 */
    uint32_t upper;          /* required */
    uint32_t pressure_depth; /* busy at this depth; 0 = 1 */
    uint32_t step_percent;   /* growth when all are busy; 0 = 20 */
    uint32_t idle_percent;   /* shrink when fewer are busy; 0 = 30 */
    uint32_t reserved;
    uint64_t cooldown_ns; /* 0 = 5 s */
} troupe_resizer_options;

/* A pool (type and routees) or a group (members), never both. Copied. */
typedef struct troupe_router_options {
    size_t size;
    const char *name; /* of the router */
    troupe_routing routing;
    uint32_t flags;                             /* TROUPE_ROUTER_* */
    const troupe_actor_type *type;              /* pool: of routee-1.. */
    const troupe_spawn_options *routee_options; /* each; without a name */
    const troupe_ref *members;                  /* group */
    uint32_t routees;                           /* how many; >= 1 */
    uint32_t bounded_load_percent; /* hash: spill over the mean; 0 = never */
    const uint32_t *weights;       /* one per routee, sum > 0 */
    troupe_pick_fn pick;
    troupe_key_fn key;
    troupe_key_bytes_fn key_bytes;
    void *user;    /* of pick, key, key_bytes */
    uint64_t seed; /* random, two choices; 0 = the system's */
    const struct troupe_gather_options *gather; /* NULL: its defaults */
    const troupe_resizer_options *resizer;
} troupe_router_options;

/* A ref like any other: send to it. It watches, prunes, stops its pool. */
TROUPE_API TROUPE_NODISCARD troupe_status troupe_spawn_router(troupe_self *self,
    const troupe_router_options *options, troupe_ref *router);
TROUPE_API TROUPE_NODISCARD troupe_status troupe_system_spawn_router(
    troupe_system *system, const troupe_router_options *options,
    troupe_ref *router);

/* All live routees, whatever the strategy; uses no index. E_NO_ROUTE. */
TROUPE_API TROUPE_NODISCARD troupe_status troupe_broadcast(troupe_self *self,
    troupe_ref router, const troupe_msg_type *type, const void *payload);
TROUPE_API TROUPE_NODISCARD troupe_status troupe_post_broadcast(
    troupe_system *system, troupe_ref router, const troupe_msg_type *type,
    const void *payload);

/* Control, any thread: E_INVALID if `router` is none. They end by and by. */
TROUPE_API TROUPE_NODISCARD troupe_status troupe_router_resize(
    troupe_system *system, troupe_ref router, uint32_t routees);
TROUPE_API TROUPE_NODISCARD troupe_status troupe_router_add(
    troupe_system *system, troupe_ref router, troupe_ref member);
TROUPE_API TROUPE_NODISCARD troupe_status troupe_router_remove(
    troupe_system *system, troupe_ref router, troupe_ref member); /* drains */
TROUPE_API troupe_status troupe_router_stop_routees(
    troupe_system *system, troupe_ref router); /* troupe_stop to each */
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
