/* SPDX-License-Identifier: MIT */
#include "system/log.h"

#include "actor/registry.h"
#include "base/clock.h"
#include "system/system.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define TEXT_BYTES 1024
#define LINE_BYTES 4096 /* every byte of the text may need 6 in JSON: cut */
#define ONCE_PER_NS UINT64_C(1000000000)

static const char *
level_name(troupe_log_level level)
{
    switch (level) {
    case TROUPE_LOG_ERROR:
        return "error";
    case TROUPE_LOG_WARN:
        return "warn";
    case TROUPE_LOG_INFO:
        return "info";
    case TROUPE_LOG_DEBUG:
        return "debug";
    case TROUPE_LOG_DEFAULT:
    case TROUPE_LOG_OFF:
        break;
    }
    return "off";
}

/* The text inside a JSON string (RFC 8259, section 7), cut to fit. */
static void
escape(char *to, size_t room, const char *from)
{
    size_t length = 0;

    for (; *from != '\0'; from++) {
        unsigned char c = (unsigned char)*from;
        char piece[8];
        size_t bytes = 1;

        piece[0] = (char)c;
        if (c == '"' || c == '\\') {
            piece[0] = '\\';
            piece[1] = (char)c;
            bytes = 2;
        } else if (c < 0x20) {
            bytes = (size_t)snprintf(piece, sizeof piece, "\\u%04x", c);
        }
        if (length + bytes + 1 > room) {
            break;
        }
        memcpy(to + length, piece, bytes);
        length += bytes;
    }
    to[length] = '\0';
}

static void
format_line(const struct trp_log *log, uint64_t now_ns,
    const troupe_log_line *line, char *out, size_t bytes)
{
    unsigned long long seconds = now_ns / UINT64_C(1000000000);
    unsigned micros = (unsigned)(now_ns % UINT64_C(1000000000) / 1000);

    if (log->hook.format == TROUPE_LOG_FORMAT_JSON) {
        char source[512], text[3 * TEXT_BYTES];

        escape(source, sizeof source, line->source);
        escape(text, sizeof text, line->text);
        snprintf(out, bytes,
            "{\"time\":%llu.%06u,\"level\":\"%s\",\"source\":\"%s\","
            "\"suppressed\":%u,\"text\":\"%s\"}",
            seconds, micros, level_name(line->level), source, line->suppressed,
            text);
    } else if (line->suppressed != 0) {
        snprintf(out, bytes, "%llu.%06u %s %s: %s (%u more like this)", seconds,
            micros, level_name(line->level), line->source, line->text,
            line->suppressed);
    } else {
        snprintf(out, bytes, "%llu.%06u %s %s: %s", seconds, micros,
            level_name(line->level), line->source, line->text);
    }
}

bool
trp_log_is_due(struct trp_log *log, enum trp_log_kind kind, uint64_t now_ns)
{
    /* relaxed: a look; admit_locked() decides. */
    bool is_due = now_ns >= trp_load_relaxed(&log->kind[kind].next_ns);

    if (!is_due) {
        /* relaxed: statistic. */
        trp_add_relaxed(&log->kind[kind].suppressed, 1);
    }
    return is_due;
}

/* Whether a line of this kind may go out now. */
static bool
admit_locked(struct trp_log *log, enum trp_log_kind kind, uint64_t now_ns,
    uint32_t *suppressed)
{
    *suppressed = 0;
    if (kind == TRP_LOG_USER) {
        return true;
    }
    if (!trp_log_is_due(log, kind, now_ns)) {
        return false;
    }
    /* relaxed, all of them: a time under lock, and a statistic. */
    trp_store_relaxed(&log->kind[kind].next_ns, now_ns + ONCE_PER_NS);
    *suppressed = trp_load_relaxed(&log->kind[kind].suppressed);
    trp_sub_relaxed(&log->kind[kind].suppressed, *suppressed);
    return true;
}

void
trp_log_write(struct trp_log *log, uint64_t now_ns, enum trp_log_kind kind,
    troupe_log_level level, const char *source, const char *format,
    va_list args)
{
    int error = errno;
    char text[TEXT_BYTES], out[LINE_BYTES];
    troupe_log_line line = {.size = sizeof line,
        .level = level,
        .source = source != NULL ? source : log->name,
        .text = text,
        .line = out};

    if (!trp_log_is_on(log, level)) {
        return;
    }
    vsnprintf(text, sizeof text, format, args);
    trp_lock_acquire(&log->lock);
    if (admit_locked(log, kind, now_ns, &line.suppressed)) {
        format_line(log, now_ns, &line, out, sizeof out);
        if (log->hook.write != NULL) {
            log->hook.write(&line, log->hook.user);
        } else {
            fprintf(stderr, "%s\n", out);
        }
    }
    trp_lock_release(&log->lock);
    errno = error;
}

void
troupe_log(troupe_self *self, troupe_log_level level, const char *format, ...)
{
    struct troupe_system *system;
    char path[512];
    va_list args;

    if (self == NULL || format == NULL) {
        return;
    }
    system = trp_system_of(self->core);
    if (!trp_log_is_on(&system->log, level)) {
        return;
    }
    trp_registry_path(self->core, self->ref, path, sizeof path);
    va_start(args, format);
    trp_log_write(&system->log, troupe_now_ns(system), TRP_LOG_USER, level,
        path, format, args);
    va_end(args);
}

void
troupe_system_log(
    troupe_system *system, troupe_log_level level, const char *format, ...)
{
    va_list args;

    if (system == NULL || format == NULL || !trp_core_is_alive(&system->core)) {
        return;
    }
    va_start(args, format);
    trp_log_write(&system->log, troupe_now_ns(system), TRP_LOG_USER, level,
        NULL, format, args);
    va_end(args);
}

void
trp_system_log_of(troupe_system *system, troupe_ref actor,
    troupe_log_level level, const char *format, ...)
{
    char path[512];
    va_list args;

    if (!trp_log_is_on(&system->log, level)) {
        return;
    }
    trp_registry_path(&system->core, actor, path, sizeof path);
    va_start(args, format);
    trp_log_write(&system->log, troupe_now_ns(system), TRP_LOG_USER, level,
        path, format, args);
    va_end(args);
}

bool
troupe_log_enabled(const troupe_system *system, troupe_log_level level)
{
    return system != NULL && trp_log_is_on(&system->log, level);
}
