/* SPDX-License-Identifier: MIT */
#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

_Thread_local struct trp_thread trp_thread;

troupe_status
trp_refuse(troupe_status status, const char *call, const char *option,
    const char *rule, const char *format, ...)
{
    int os_error = status == TROUPE_E_SYSTEM ? errno : 0;
    troupe_error *error = &trp_thread.error;
    va_list args;

    error->status = status;
    error->os_error = os_error;
    error->call = call;
    error->option = option;
    error->rule = rule;
    va_start(args, format);
    vsnprintf(error->value, sizeof error->value, format, args);
    va_end(args);
    return status;
}

troupe_error
troupe_last_error(void)
{
    troupe_error error = trp_thread.error;

    if (error.call == NULL) {
        error.call = error.option = error.rule = "";
    }
    return error;
}

static const struct {
    troupe_status status;
    const char *name;
    const char *text;
} texts[] = {
#define TRP_TEXT(name, value, text) {TROUPE_##name, "TROUPE_" #name, text},
    TROUPE_STATUS_MAP(TRP_TEXT)
#undef TRP_TEXT
};

const char *
troupe_status_name(troupe_status status)
{
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (texts[i].status == status) {
            return texts[i].name;
        }
    }
    return "TROUPE_E_UNKNOWN";
}

const char *
troupe_status_text(troupe_status status)
{
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (texts[i].status == status) {
            return texts[i].text;
        }
    }
    return "unknown status";
}

/* snprintf() with a text that cannot make it fail. */
static size_t
length_of(int written)
{
    return written < 0 ? 0 : (size_t)written;
}

size_t
troupe_explain(troupe_status status, char *text, size_t bytes)
{
    const troupe_error *error = &trp_thread.error;
    const char *plain = troupe_status_text(status);

    if (text == NULL) {
        bytes = 0;
    }
    if (status == TROUPE_OK || error->call == NULL || error->status != status) {
        return length_of(snprintf(text, bytes, "%s", plain));
    }
    if (error->os_error != 0) {
        return length_of(snprintf(text, bytes, "%s: %s %s (%s: %s)",
            error->call, error->option, error->rule, error->value,
            strerrordesc_np(error->os_error)));
    }
    if (error->value[0] == '\0') {
        return length_of(snprintf(
            text, bytes, "%s: %s %s", error->call, error->option, error->rule));
    }
    return length_of(snprintf(text, bytes, "%s: %s %s (got %s)", error->call,
        error->option, error->rule, error->value));
}
