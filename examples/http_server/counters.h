/* SPDX-License-Identifier: MIT */
#ifndef HTTP_COUNTERS_H
#define HTTP_COUNTERS_H

#include <stdatomic.h>
#include <stdint.h>

/*
 * What a loop counts. Only its thread writes, GET /stats reads: relaxed loads
 * and stores are enough, and no read-modify-write is needed.
 */
#define LOOP_COUNTER_MAP(X)                                                    \
    X(connections) /* open now */                                              \
    X(accepted)                                                                \
    X(requests)   /* with a complete head and body */                          \
    X(dispatched) /* of these: to an actor */                                  \
    X(waiting)    /* of these: at an actor now */                              \
    X(orphans)    /* answers whose connection had gone */                      \
    X(busy)       /* refused because of --max-inflight */                      \
    X(timeouts)                                                                \
    X(answers_2xx)                                                             \
    X(answers_4xx)                                                             \
    X(answers_5xx)

struct loop_counters {
#define LOOP_COUNTER_MEMBER(name) _Atomic(uint64_t) name;
    LOOP_COUNTER_MAP(LOOP_COUNTER_MEMBER)
#undef LOOP_COUNTER_MEMBER
};

static inline uint64_t
counter_read(const _Atomic(uint64_t) *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

/* By the loop's own thread. */
static inline void
counter_add(_Atomic(uint64_t) *counter, int64_t n)
{
    atomic_store_explicit(
        counter, counter_read(counter) + (uint64_t)n, memory_order_relaxed);
}

#endif /* HTTP_COUNTERS_H */
