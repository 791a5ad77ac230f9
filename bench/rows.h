/* SPDX-License-Identifier: MIT */
#ifndef BENCH_ROWS_H
#define BENCH_ROWS_H

/* Every row in one list: it makes the prototypes, the table and --list. */

#include "harness.h"

#define BENCH_ROW_MAP(X)                                                       \
    X(pingpong, bench_pingpong, "messages", "2 actors, 5M round trips")        \
    X(ring, bench_ring, "hops", "100 actors, one token, 5M hops")              \
    X(count, bench_count, "messages", "1 producer, 1 counter, 10M messages")   \
    X(n1, bench_n1, "messages", "64 producers x 100k, 1 counter")              \
    X(fjthrput, bench_fjthrput, "messages", "1 driver, 60 workers x 200k")     \
    X(big, bench_big, "messages", "120 actors x 20k pings to random peers")    \
    X(ubench, bench_ubench, "hops", "8 actors, 40 tokens x 250k random hops")  \
    X(chameneos, bench_chameneos, "messages", "100 creatures, 2M meetings")    \
    X(dict, bench_dict, "messages", "20 clients x 100k requests, 10% writes")  \
    X(bndbuf, bench_bndbuf, "messages", "buffer of 50, 40 + 40 actors x 10k")  \
    X(ask, bench_ask, "messages", "1 asker, 1 server, 300k asks in a row")     \
    X(gatherfirst, bench_gatherfirst, "gathers",                               \
        "1 asks 16 for the first answer, 100k in a row")                       \
    X(gatherall, bench_gatherall, "gathers", "the same for all 16 answers")    \
    X(fjcreate, bench_fjcreate, "actors", "1M actors, 1 message each")         \
    X(churn, bench_churn, "actors", "1M actors, 100 alive, 1 reply each")      \
    X(fib, bench_fib, "messages", "fib(27), an actor per call")                \
    X(skynet, bench_skynet, "actors", "10-ary tree, 1M leaves, their sum")     \
    X(restart, bench_restart, "restarts", "one child fails and restarts, 1M")  \
    X(memory, bench_memory, "actors", "RSS of 1M new actors; time to spawn")   \
    X(memwarm, bench_memwarm, "actors",                                        \
        "RSS after 1 message to each of 1M; time for that")                    \
    X(self, bench_self, "messages", "an actor sends to itself, 10M")           \
    X(become, bench_become, "messages", "self, a behaviour for each message")  \
    X(spawn, bench_spawn_stop, "actors", "spawn + stop, no message, 1M")       \
    X(post_wake, bench_post_wake, "posts",                                     \
        "post to a sleeping system until handled, median")                     \
    X(post, bench_post, "messages", "a foreign thread posts 2M to 1 actor")    \
    X(pushpop, bench_pushpop, "messages",                                      \
        "bursts of 64 to an actor at rest, 10M")                               \
    X(deep10, bench_deep10, "messages", "one in, one out, 10 waiting, 10M")    \
    X(deep1k, bench_deep1k, "messages", "the same with 1000 waiting")          \
    X(deep100k, bench_deep100k, "messages", "the same with 100k waiting")      \
    X(deep1m, bench_deep1m, "messages", "the same with 1M waiting")            \
    X(unbounded, bench_unbounded, "messages", "reject, but without a bound")   \
    X(throttle, bench_throttle, "messages", "unbounded, but throttled")        \
    X(reject, bench_reject, "messages", "pushpop, bounded to 64, 10M")         \
    X(rejectfull, bench_rejectfull, "messages",                                \
        "the same, bursts of 1000, 10M")                                       \
    X(dropnew, bench_dropnew, "messages", "reject, but drop-new")              \
    X(dropnewfull, bench_dropnewfull, "messages", "rejectfull, but drop-new")  \
    X(drophead, bench_drophead, "messages", "reject, but drop-head")           \
    X(dropheadfull, bench_dropheadfull, "messages",                            \
        "rejectfull, but drop-head")                                           \
    X(priority10, bench_priority10, "messages",                                \
        "as deep10, random priorities, 2M")                                    \
    X(priority1k, bench_priority1k, "messages", "the same with 1000 waiting")  \
    X(priority100k, bench_priority100k, "messages",                            \
        "the same with 100k waiting")                                          \
    X(priority1m, bench_priority1m, "messages", "the same with 1M waiting")    \
    X(stash, bench_stash, "messages", "64 put aside, put back, handled, 5M")   \
    X(breaker, bench_breaker, "calls", "through a closed breaker, 50M")        \
    X(router4, bench_router4, "messages",                                      \
        "1 driver, a router with 4 routees, round robin, 2M")                  \
    X(router16, bench_router16, "messages", "the same with 16 routees")        \
    X(router64, bench_router64, "messages", "the same with 64 routees")        \
    X(routersm4, bench_routersm4, "messages",                                  \
        "as router4, by smallest mailbox, 2M")                                 \
    X(routersm16, bench_routersm16, "messages", "the same with 16 routees")    \
    X(routersm64, bench_routersm64, "messages", "the same with 64 routees")    \
    X(routersm256, bench_routersm256, "messages", "the same with 256 routees") \
    X(routersm1024, bench_routersm1024, "messages",                            \
        "the same with 1024 routees")                                          \
    X(routerrandom64, bench_routerrandom64, "messages",                        \
        "as router64, at random")                                              \
    X(routerweighted64, bench_routerweighted64, "messages",                    \
        "as router64, by weights of 1 to 4")                                   \
    X(routertwo64, bench_routertwo64, "messages",                              \
        "as router64, the emptier of two at random")                           \
    X(routerleast64, bench_routerleast64, "messages",                          \
        "as router64, by least in flight")                                     \
    X(routerhash64, bench_routerhash64, "messages", "as router64, by a key")   \
    X(routercustom64, bench_routercustom64, "messages",                        \
        "as router64, by a function of one's own")                             \
    X(routerserial64, bench_routerserial64, "messages",                        \
        "the same in the router's turn")                                       \
    X(fanout1000, bench_fanout1000, "messages",                                \
        "each number to 1000 routees, 2M in all")                              \
    X(fanoutshared1000, bench_fanoutshared1000, "messages",                    \
        "the same with a shared payload of 1 KiB")                             \
    X(fanoutcopied1000, bench_fanoutcopied1000, "messages",                    \
        "the same with a copy of 1 KiB for each")                              \
    X(routerresize, bench_routerresize, "messages",                            \
        "as router64, 32 or 64 routees in turn, 2M")                           \
    X(pick64, bench_pick64, "messages",                                        \
        "bursts to 64 routees, the sends alone, round robin, 2M")              \
    X(pickrandom64, bench_pickrandom64, "messages", "the same at random")      \
    X(pickweighted64, bench_pickweighted64, "messages",                        \
        "the same by weights of 1 to 4")                                       \
    X(picktwo64, bench_picktwo64, "messages",                                  \
        "the same, the emptier of two at random")                              \
    X(picksm64, bench_picksm64, "messages", "the same by smallest mailbox")    \
    X(picksm256, bench_picksm256, "messages", "picksm64, 256 routees")         \
    X(picksm1024, bench_picksm1024, "messages", "picksm64, 1024 routees")      \
    X(pickleast64, bench_pickleast64, "messages",                              \
        "pick64, but by least in flight")                                      \
    X(pickhash64, bench_pickhash64, "messages", "pick64, but by a key")        \
    X(pickcustom64, bench_pickcustom64, "messages",                            \
        "pick64, but by a function of one's own")                              \
    X(watchstorm, bench_watchstorm, "notices",                                 \
        "200k actors watch one, it ends, all are told")                        \
    X(watchmany, bench_watchmany, "notices",                                   \
        "one watches 200k actors, they end, it is told")                       \
    X(timerstart, bench_timerstart, "timers", "1M started, 1M are pending")    \
    X(timercancel, bench_timercancel, "timers",                                \
        "1M cancelled, 1M others are pending")                                 \
    X(timerfire, bench_timerfire, "timers",                                    \
        "1M due at once until handled, 1M others are pending")

struct bench_row {
    const char *name;
    void (*run)(struct bench *bench);
    const char *counted; /* what the rate is of */
    const char *text;
};

extern const struct bench_row bench_rows[];
extern const size_t bench_row_count;

const struct bench_row *bench_row_find(const char *name); /* or NULL */

#define BENCH_ROW_PROTOTYPE(name, run, counted, text)                          \
    void run(struct bench *bench);
BENCH_ROW_MAP(BENCH_ROW_PROTOTYPE)
#undef BENCH_ROW_PROTOTYPE

#endif /* BENCH_ROWS_H */
