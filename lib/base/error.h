/* SPDX-License-Identifier: MIT */
#ifndef TRP_BASE_ERROR_H
#define TRP_BASE_ERROR_H

/*
 * The one thread-local block of the library: which worker this thread is, and
 * why its last explained call was refused. initial-exec: no allocation, no
 * destructor, also in a library that was loaded with dlopen.
 */

#include <troupe/status.h>

struct trp_rng;

struct trp_thread {
    void *worker;        /* struct trp_worker, or NULL on a foreign thread */
    struct trp_rng *rng; /* the worker's, or NULL */
    uint32_t in_hook;    /* inside the dead-letter hook */
    uint32_t in_drop;    /* inside an on_drop callback */
    troupe_error error;  /* troupe_last_error() */
};

extern _Thread_local struct trp_thread trp_thread
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* Records the refusal and returns `status`. All strings but value are static.
 */
troupe_status trp_refuse(troupe_status status, const char *call,
    const char *option, const char *rule, const char *format, ...)
    __attribute__((format(printf, 5, 6), cold));

#endif /* TRP_BASE_ERROR_H */
