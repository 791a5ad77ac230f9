/* SPDX-License-Identifier: MIT */
#ifndef TROUPE_LOG_H
#define TROUPE_LOG_H

#include <troupe/types.h>

TROUPE_BEGIN_DECLS

typedef enum troupe_log_level {
    TROUPE_LOG_DEFAULT = 0, /* TROUPE_LOG, else warn */
    TROUPE_LOG_ERROR = 1,
    TROUPE_LOG_WARN = 2,
    TROUPE_LOG_INFO = 3,
    TROUPE_LOG_DEBUG = 4,
    TROUPE_LOG_OFF = 5
} troupe_log_level;

typedef enum troupe_log_format {
    TROUPE_LOG_FORMAT_DEFAULT = 0, /* TROUPE_LOG_FORMAT, else text */
    TROUPE_LOG_FORMAT_TEXT = 1,
    TROUPE_LOG_FORMAT_JSON = 2
} troupe_log_format;

typedef struct troupe_log_line { /* borrowed; may grow: read, never copy */
    size_t size;
    troupe_log_level level;
    uint32_t suppressed; /* lines of this kind held back before this one */
    const char *source;  /* path of the actor, or name of the system */
    const char *text;    /* the message alone */
    const char *line; /* the finished line in the chosen format, no newline */
} troupe_log_line;

/*
 * Any runtime thread, one call at a time per system. Must not block for long
 * and must not call into the library.
 */
typedef void (*troupe_log_fn)(
    const troupe_log_line *line, void *user) TROUPE_NOEXCEPT;

typedef struct troupe_log_hook { /* frozen */
    troupe_log_fn write;         /* NULL = stderr */
    void *user;
    troupe_log_level max_level;
    troupe_log_format format;
} troupe_log_hook;

/* As this actor, as the system. Longer than 1000 bytes is cut. */
TROUPE_API void troupe_log(troupe_self *self, troupe_log_level level,
    const char *format, ...) TROUPE_PRINTF(3, 4);
TROUPE_API void troupe_system_log(troupe_system *system, troupe_log_level level,
    const char *format, ...) TROUPE_PRINTF(3, 4);
TROUPE_API bool troupe_log_enabled(
    const troupe_system *system, troupe_log_level level);

TROUPE_END_DECLS

#endif /* TROUPE_LOG_H */
