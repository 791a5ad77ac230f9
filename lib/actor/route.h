/* SPDX-License-Identifier: MIT */
#ifndef TRP_ACTOR_ROUTE_H
#define TRP_ACTOR_ROUTE_H

/*
 * A router: an actor whose messages are handed on, on the thread that sends
 * them. Its own turn is for control only: deaths, resize, add, remove.
 *
 *     sender                                        routee 1
 *       |  cell of the router -> rules -> route        ^
 *       +--------------------------------> table ------+ pick, then deliver
 *       |                                    ^
 *       | parked, or the router's own        | publishes a new version
 *       v                                    |
 *     mailbox of the router  ------------> its turn
 *
 * The claim of a plain send fails, since the cell has rules (C4 of cell.h), so
 * others pay nothing for routers; rules.c leads here. A route lies in a block
 * that is never unmapped, and is checked against the life of the cell as rules
 * are. What a strategy reads is in the table: queue/table.h.
 *
 * Parked: messages wait in the router's mailbox, which is one with a lock, and
 * are routed in its turn. So it is before its first turn, while it restarts,
 * and always with TROUPE_ROUTER_SERIAL.
 *
 * Invariants
 *   U1  Parked ends only with the lock held and nothing waiting, in the turn
 *       that has routed all that waited. So a sender's messages to one routee
 *       keep their order.
 *   U2  Whoever finds it parked puts a message in line with the lock held, and
 *       with it parked still.
 *   U3  A message goes to nobody twice, and to nobody silently: who gets it has
 *       it, or the sender hears of it, or it is a dead letter.
 *   U4  A slot of the depths only says whom to look at: the cell is looked at
 *       before it is believed, or all cells are.
 *
 * Pairs
 *   route.parked  store of parked under the lock -> load of parked: what
 *                 waited has been routed.
 */

#include "actor/message.h"
#include "queue/table.h"

#include <troupe/router.h>

struct trp_rules;

/* The router's part; a unit of core->routes. */
struct trp_route {
    struct trp_table table;       /* any thread reads */
    TRP_ATOMIC(uint8_t) parked;   /* written under the lock of the rules */
    TRP_ATOMIC(uint64_t) look_ns; /* after it the size is looked at; 0: never */
    uint32_t depths;              /* unit of core->depths, or none; owner */

    /* senders: a line of its own, since all of them write it */
    TRP_ALIGNED(64) TRP_ATOMIC(uint64_t) index; /* of the next message */

    /* statistics, in a line of their own */
    TRP_ALIGNED(64) TRP_ATOMIC(uint64_t) before; /* index of earlier starts */
    TRP_ATOMIC(uint64_t) broadcasts;
    TRP_ATOMIC(uint64_t) copies;    /* more than one per message */
    TRP_ATOMIC(uint64_t) empty;     /* nobody was picked */
    TRP_ATOMIC(uint64_t) refused;   /* by who was picked */
    TRP_ATOMIC(uint64_t) waited;    /* messages that did */
    TRP_ATOMIC(uint64_t) samples;   /* picks that were timed */
    TRP_ATOMIC(uint64_t) sample_ns; /* what those took */
};

/* One routee, as the router's owner knows it. */
struct trp_routee {
    troupe_ref ref;
    uint32_t weight;
    uint64_t identity; /* of base/rendezvous.h, with hashes */
    uint32_t slot;     /* of the depths, if all have one */
};

/* What all versions of a router's table say. */
struct trp_route_plan {
    troupe_routing routing;
    troupe_pick_fn pick;
    troupe_key_fn key;
    troupe_key_bytes_fn key_bytes;
    void *user;
    uint64_t seed;
    uint32_t bounded_load_percent;
    uint32_t slots;   /* those of all routees are below */
    bool are_counted; /* all routees are: R5 of actor/rules.h */
    bool is_weighted; /* by a key, and some get more than others */
};

/* Of a table: class 0 has room for 12 routees. */
#define TRP_ROUTE_UNIT_SHIFT 8
#define TRP_ROUTE_CLASSES 17
#define TRP_ROUTEES_MOST UINT32_C(1000000)
/* Of depths: class 0 has 32 slots, the last one 262112. */
#define TRP_DEPTHS_UNIT_SHIFT 8
#define TRP_DEPTHS_CLASSES 13

/* Nobody else can send one: its tag is the library's. */
extern const troupe_msg_type trp_route_control_type;

enum trp_route_order {
    TRP_ROUTE_RESIZE,
    TRP_ROUTE_ADD,
    TRP_ROUTE_REMOVE,
    TRP_ROUTE_STOP_ROUTEES,
    TRP_ROUTE_MEASURE
};

struct trp_route_control {
    uint32_t order; /* TRP_ROUTE_* */
    uint32_t routees;
    troupe_ref member;
};

_Static_assert(sizeof(struct trp_route_control) <= TRP_INLINE_BYTES,
    "an order needs no memory");

/* Of the rules of a router, or NULL: checked as they are. */
struct trp_route *trp_route_of(struct trp_core *core, struct trp_rules *rules);
/* With the lock held: a message may be put in line. `parks`: from now on. */
bool trp_route_takes(struct trp_route *route, bool parks);

/* At birth and at the end of the cell. False: no memory. */
bool trp_route_open(struct trp_core *core, struct trp_rules *rules);
void trp_route_close(struct trp_core *core, struct trp_rules *rules);

/*
 * The route of a router that lives, for readers who look at its life again
 * afterwards. E_INVALID: it is none; E_DEAD: it has gone.
 */
troupe_status trp_route_find(struct trp_core *core, troupe_ref router,
    const char *call, struct trp_route **route);
/* A snapshot: writes up to `capacity`, returns how many there are. */
size_t trp_route_members(struct trp_core *core, struct trp_route *route,
    troupe_ref *members, size_t capacity);

/* All but the size. */
void trp_route_count(struct trp_core *core, struct trp_route *route,
    troupe_router_counters *counters);

/* From trp_rules_deliver(); the contract is that of trp_mailbox_deliver(). */
troupe_status trp_route_deliver(struct trp_core *core, struct trp_local *local,
    struct trp_rules *rules, troupe_ref to, const struct trp_item *item);

/* --- in the router's turn ------------------------------------------------- */

/* False: no memory; the table is as it was. Smaller ones need none. */
bool trp_route_publish(struct trp_core *core, struct trp_route *route,
    const struct trp_route_plan *plan, const struct trp_routee *routees,
    uint32_t count);
/*
 * Room for the depths of `routees`, side by side: for strategies that look for
 * the shortest mailbox of a pool. Without memory there are none, and they look
 * at the cells.
 */
void trp_route_reserve_depths(
    struct trp_core *core, struct trp_route *route, uint32_t routees);
/* For the rules of the routee that has it; NULL: there are not so many. */
TRP_ATOMIC(uint32_t) *
    trp_route_slot(struct trp_core *core, struct trp_route *route, uint32_t at);
/* One that is closed is not found. `at` is one that there is. */
void trp_route_turn_slot(
    struct trp_core *core, struct trp_route *route, uint32_t at);
/*
 * Counts one more hop, from one router's turn to another's. E_LIMIT: it has
 * made as many as it may. What an actor forwards begins anew.
 */
troupe_status trp_route_hop(struct trp_item *item);
/*
 * The current message goes where it would have gone; else a dead letter.
 * `hops`: all of them come this way, so a circle has to be found here.
 */
void trp_route_current(struct troupe_self *self, bool hops);
/* A message after that time makes it look at its size; 0: never. */
void trp_route_look_after(struct trp_route *route, uint64_t time_ns);
/* How much waits there; UINT32_MAX: it is about to stop, or has gone. */
uint32_t trp_route_depth(struct trp_core *core, troupe_ref ref);
/* One message was asked of `count`; 0: nobody was there. */
void trp_route_note_asked(struct trp_route *route, uint32_t count);
/* What comes now waits; the next index is 0. */
void trp_route_park(struct troupe_self *self);
/* Not any more, if nothing waits. */
void trp_route_unpark(struct troupe_self *self);

#endif /* TRP_ACTOR_ROUTE_H */
