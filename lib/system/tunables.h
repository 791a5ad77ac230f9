/* SPDX-License-Identifier: MIT */
#ifndef TRP_SYSTEM_TUNABLES_H
#define TRP_SYSTEM_TUNABLES_H

/*
 * For each tunable: the option that is not 0, else the environment variable,
 * else the default. Read once, when a system is created.
 */

#include <troupe/system.h>

enum trp_tunable {
#define TUNABLE(variable, member, unit, value, least, most, help)              \
    TRP_##variable,
#include "system/tunables.def"
#undef TUNABLE
    TRP_TUNABLES
};

/* Values of TROUPE_DEAD_LETTERS that are no size. */
#define TRP_DEAD_LETTERS_COUNT 0
#define TRP_DEAD_LETTERS_OFF UINT64_MAX

enum trp_source {
    TRP_SOURCE_DEFAULT,
    TRP_SOURCE_ENVIRONMENT,
    TRP_SOURCE_OPTION
};

struct trp_tunables {
    uint64_t value[TRP_TUNABLES]; /* in the unit of the variable */
    enum trp_source source[TRP_TUNABLES];
};

/* E_INVALID (an option), E_ENV (a variable): recorded with rule and value. */
troupe_status trp_tunables_read(
    struct trp_tunables *tunables, const troupe_system_options *options);

/* As troupe_system_describe(). */
size_t trp_tunables_describe(
    const struct trp_tunables *tunables, char *text, size_t bytes);

/* The nth TROUPE_ variable that no tunable has, without its value; or NULL. */
const char *trp_tunables_unknown(size_t nth, size_t *length);

#endif /* TRP_SYSTEM_TUNABLES_H */
