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
    TRP_LOG_LETTER,
    TRP_LOG_LETTER_LOST,
    TRP_LOG_FAILED,
    TRP_LOG_KINDS
};

struct trp_log {
    /* constant after creation */
    troupe_log_hook hook;
    const char *name;

    struct trp_lock lock; /* lines come one at a time */
    struct {
        TRP_ATOMIC(uint64_t) next_ns;    /* written under lock, read by all */
        TRP_ATOMIC(uint32_t) suppressed; /* any thread adds */
    } kind[TRP_LOG_KINDS];
};

static inline bool
trp_log_is_on(const struct trp_log *log, troupe_log_level level)
{
    return log->hook.max_level != TROUPE_LOG_OFF && level >= TROUPE_LOG_ERROR &&
           level <= log->hook.max_level;
}

/*
 * Would a line of this kind go out now? If not it counts as held back: for who
 * asks before making a costly text. Takes no lock.
 */
bool trp_log_is_due(
    struct trp_log *log, enum trp_log_kind kind, uint64_t now_ns);

/* One line. `source` NULL: the name of the system. errno is kept. */
void trp_log_write(struct trp_log *log, uint64_t now_ns, enum trp_log_kind kind,
    troupe_log_level level, const char *source, const char *format,
    va_list args) __attribute__((format(printf, 6, 0)));

#endif /* TRP_SYSTEM_LOG_H */
