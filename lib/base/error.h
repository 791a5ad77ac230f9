/* SPDX-License-Identifier: MIT */
#ifndef TRP_BASE_ERROR_H
#define TRP_BASE_ERROR_H

/*
 * The one thread-local block of the library: which worker this thread is, and
 * why its last explained call was refused. initial-exec: no allocation, no
 * destructor, also in a library that was loaded with dlopen.
 */

#include <troupe/status.h>

#include "base/lot.h"

struct trp_rng;

/* A callback that runs on this thread; on the stack of whoever calls it. */
struct trp_inside {
    const void *core; /* whose callback it is */
    const struct trp_inside *outer;
};

struct trp_thread {
    void *worker;        /* struct trp_worker, or NULL on a foreign thread */
    struct trp_rng *rng; /* the worker's, or NULL */
    const struct trp_inside *in_hook; /* dead-letter hooks */
    const struct trp_inside *in_drop; /* on_drop */
    const struct trp_inside *in_task; /* of a shutdown */
    const void *in_route;             /* the innermost of actor/route.c */
    troupe_error error;               /* troupe_last_error() */
    struct trp_lot sends; /* from outside, that are measured: actor/meter.h */
};

extern _Thread_local struct trp_thread trp_thread
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* One of this system's is among them. */
static inline bool
trp_is_inside(const struct trp_inside *innermost, const void *core)
{
    while (innermost != NULL && innermost->core != core) {
        innermost = innermost->outer;
    }
    return innermost != NULL;
}

/* Records the refusal and returns `status`. All strings but value are static.
 */
troupe_status trp_refuse(troupe_status status, const char *call,
    const char *option, const char *rule, const char *format, ...)
    __attribute__((format(printf, 5, 6), cold));

#endif /* TRP_BASE_ERROR_H */
