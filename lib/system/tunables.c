/* SPDX-License-Identifier: MIT */
#include "system/tunables.h"

#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum unit { COUNT, US, MS, STEAL, LETTERS, SWITCH, LEVEL, FORMAT, SEED };

static const struct tunable {
    const char *variable;
    const char *member;
    enum unit unit;
    uint64_t value, least, most;
    const char *rule;
    const char *rule_ns; /* of an option in ns whose variable is in ms */
} list[] = {
#define TUNABLE(variable, member, unit, value, least, most, help)              \
    {#variable, #member, unit, UINT64_C(value), UINT64_C(least),               \
        UINT64_C(most), "must be between " #least " and " #most,               \
        "must be between " #least " and " #most "000000"},
#include "system/tunables.def"
#undef TUNABLE
};

static const char *const levels[] = {
    "", "error", "warn", "info", "debug", "off", NULL};
static const char *const formats[] = {"", "text", "json", NULL};
static const char *const switches[] = {"", "on", "off", NULL};
static const char *const steals[] = {"", "on", "off", "eager", NULL};

static const char *const *
words_of(enum unit unit)
{
    switch (unit) {
    case STEAL:
        return steals;
    case SWITCH:
        return switches;
    case LEVEL:
        return levels;
    case FORMAT:
        return formats;
    case COUNT:
    case US:
    case MS:
    case LETTERS:
    case SEED:
        break;
    }
    return NULL;
}

static const char *
rule_of(const struct tunable *tunable)
{
    switch (tunable->unit) {
    case STEAL:
        return "must be on, off or eager";
    case SWITCH:
        return "must be on or off";
    case LEVEL:
        return "must be error, warn, info, debug or off";
    case FORMAT:
        return "must be text or json";
    case LETTERS:
        return "must be off, count or between 1 and 1000000";
    case COUNT:
    case US:
    case MS:
    case SEED:
        break;
    }
    return tunable->rule;
}

/* Digits and nothing else, at most UINT64_MAX. */
static bool
parse_number(const char *text, uint64_t *value)
{
    uint64_t number = 0;

    for (; *text != '\0'; text++) {
        uint64_t digit = (uint64_t)(*text - '0');

        if (*text < '0' || *text > '9' || number > UINT64_MAX / 10 ||
            number * 10 > UINT64_MAX - digit) {
            return false;
        }
        number = number * 10 + digit;
    }
    *value = number;
    return true;
}

/* off, count, or how many are kept. */
static bool
parse_letters(const char *text, uint64_t *value)
{
    if (strcmp(text, "count") == 0) {
        *value = TRP_DEAD_LETTERS_COUNT;
        return true;
    }
    if (strcmp(text, "off") == 0) {
        *value = TRP_DEAD_LETTERS_OFF;
        return true;
    }
    return parse_number(text, value) && *value != TRP_DEAD_LETTERS_COUNT &&
           *value <= list[TRP_TROUPE_DEAD_LETTERS].most;
}

static bool
parse(const struct tunable *tunable, const char *text, uint64_t *value)
{
    const char *const *words = words_of(tunable->unit);

    if (tunable->unit == LETTERS) {
        return parse_letters(text, value);
    }
    if (words == NULL) {
        return parse_number(text, value) && *value >= tunable->least &&
               *value <= tunable->most;
    }
    for (uint64_t i = 1; words[i] != NULL; i++) {
        if (strcmp(words[i], text) == 0) {
            *value = i;
            return true;
        }
    }
    return false;
}

/* What the option says in the unit of the variable. `*given`: in its own, 0 =
 * nothing. */
static uint64_t
option_of(const troupe_system_options *options, size_t index, uint64_t *given)
{
    const uint64_t members[] = {
#define TUNABLE(variable, member, unit, value, least, most, help)              \
    (uint64_t) options->member,
#include "system/tunables.def"
#undef TUNABLE
    };
    uint64_t value = members[index];

    *given = value;
    if (index == TRP_TROUPE_SPIN_US && value == TROUPE_SPIN_NEVER) {
        return 0;
    }
    if (index == TRP_TROUPE_MAILBOX_WARN && value == TROUPE_WARN_NEVER) {
        return list[index].most; /* deeper than any */
    }
    if (index == TRP_TROUPE_DEAD_LETTERS && value != 0) {
        value = options->dead_letters->capacity;
        *given = value != 0 ? value : 1; /* said, even if it says none */
        return value;
    }
    if (list[index].unit == MS) { /* rounded up: 1 ns is not "none" */
        return value / 1000000 + (value % 1000000 != 0);
    }
    return value;
}

troupe_status
trp_tunables_read(
    struct trp_tunables *tunables, const troupe_system_options *options)
{
    static const char call[] = "troupe_system_create";

    for (size_t i = 0; i < TRP_TUNABLES; i++) {
        const struct tunable *tunable = &list[i];
        const char *text = (options->flags & TROUPE_SYSTEM_IGNORE_ENV) == 0
                               ? getenv(tunable->variable)
                               : NULL;
        uint64_t given;
        uint64_t value = option_of(options, i, &given);

        tunables->value[i] = tunable->value;
        tunables->source[i] = TRP_SOURCE_DEFAULT;
        if (text != NULL && text[0] != '\0') {
            if (!parse(tunable, text, &tunables->value[i])) {
                return trp_refuse(TROUPE_E_ENV, call, tunable->variable,
                    rule_of(tunable), "%s", text);
            }
            tunables->source[i] = TRP_SOURCE_ENVIRONMENT;
        }
        if (given != 0) {
            if (value < tunable->least || value > tunable->most) {
                return trp_refuse(TROUPE_E_INVALID, call, tunable->member,
                    tunable->unit == MS ? tunable->rule_ns : rule_of(tunable),
                    "%llu", (unsigned long long)given);
            }
            tunables->value[i] = value;
            tunables->source[i] = TRP_SOURCE_OPTION;
        }
    }
    return TROUPE_OK;
}

size_t
trp_tunables_describe(
    const struct trp_tunables *tunables, char *text, size_t bytes)
{
    static const char *const sources[] = {"default", "environment", "option"};
    size_t length = 0;

    if (text == NULL) {
        bytes = 0;
    }
    for (size_t i = 0; i < TRP_TUNABLES; i++) {
        const char *const *words = words_of(list[i].unit);
        size_t room = length < bytes ? bytes - length : 0;
        char value[32];
        int written;

        if (words != NULL) {
            snprintf(value, sizeof value, "%s", words[tunables->value[i]]);
        } else if (list[i].unit == LETTERS &&
                   (tunables->value[i] == TRP_DEAD_LETTERS_COUNT ||
                       tunables->value[i] == TRP_DEAD_LETTERS_OFF)) {
            snprintf(value, sizeof value, "%s",
                tunables->value[i] == TRP_DEAD_LETTERS_OFF ? "off" : "count");
        } else {
            snprintf(value, sizeof value, "%llu",
                (unsigned long long)tunables->value[i]);
        }
        written =
            snprintf(room != 0 ? text + length : NULL, room, "%s=%s (%s)\n",
                list[i].variable, value, sources[tunables->source[i]]);
        length += written > 0 ? (size_t)written : 0;
    }
    return length;
}

extern char **environ;

const char *
trp_tunables_unknown(size_t nth, size_t *length)
{
    for (char **entry = environ; entry != NULL && *entry != NULL; entry++) {
        const char *end = strchr(*entry, '=');
        bool known = false;

        if (end == NULL || strncmp(*entry, "TROUPE_", 7) != 0) {
            continue;
        }
        *length = (size_t)(end - *entry);
        for (size_t i = 0; i < TRP_TUNABLES && !known; i++) {
            known = strlen(list[i].variable) == *length &&
                    memcmp(list[i].variable, *entry, *length) == 0;
        }
        if (!known && nth-- == 0) {
            return *entry;
        }
    }
    return NULL;
}
