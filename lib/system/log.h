/* SPDX-License-Identifier: MIT */
#ifndef TRP_SYSTEM_LOG_H
#define TRP_SYSTEM_LOG_H

#include <troupe/log.h>

#include "os/futex.h"

#include <stdarg.h>

/* The library's own kinds of lines; each at most once per second. */
enum trp_log_kind {
    TRP_LOG_USER, /* the user's: never held back */
    TRP_LOG_START,
    TRP_LOG_WORKERS,
    TRP_LOG_MISMATCH,
    TRP_LOG_STOP,
    TRP_LOG_KINDS
};

struct trp_log {
    /* constant after creation */
    troupe_log_hook hook;
    const char *name;

    /* under lock: lines come one at a time */
    struct trp_lock lock;
    struct {
        uint64_t last_ns;
        uint32_t suppressed;
        bool seen;
    } kind[TRP_LOG_KINDS];
};

static inline bool
trp_log_is_on(const struct trp_log *log, troupe_log_level level)
{
    return log->hook.max_level != TROUPE_LOG_OFF && level >= TROUPE_LOG_ERROR &&
           level <= log->hook.max_level;
}

/* One line. `source` NULL: the name of the system. errno is kept. */
void trp_log_write(struct trp_log *log, uint64_t now_ns, enum trp_log_kind kind,
    troupe_log_level level, const char *source, const char *format,
    va_list args) __attribute__((format(printf, 6, 0)));

#endif /* TRP_SYSTEM_LOG_H */
