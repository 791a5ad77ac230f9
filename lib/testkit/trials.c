/* SPDX-License-Identifier: MIT */
#include <troupe/testkit.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * The options of the caller, whatever their version, with two of ours. A size
 * that is wrong stays wrong: system creation explains it.
 */
static troupe_system_options *
copy_options(const troupe_system_options *options)
{
    static const troupe_system_options defaults = {
        .size = TROUPE_OPTIONS(troupe_system_options)};
    const troupe_system_options *from = options != NULL ? options : &defaults;
    size_t bytes = from->size < sizeof *from ? sizeof *from : from->size;
    troupe_system_options *copy = calloc(1, bytes);

    if (copy != NULL) {
        memcpy(copy, from, from->size);
        copy->flags = TROUPE_SYSTEM_DRIVEN;
        if (from->size >= sizeof from->size) {
            copy->size = bytes; /* the seed lies behind some old sizes */
        }
    }
    return copy;
}

/* False: unset, empty, or nothing that system creation would accept. */
static bool
seed_from_environment(uint64_t *seed)
{
    const char *text = getenv("TROUPE_SEED");
    char *end;

    if (text == NULL || text[0] < '0' || text[0] > '9') {
        return false;
    }
    errno = 0;
    *seed = strtoull(text, &end, 10);
    return errno == 0 && *end == '\0' && *seed != 0;
}

static void
complain(uint64_t seed, const char *what, troupe_status status)
{
    char text[256];

    (void)troupe_explain(status, text, sizeof text);
    (void)fprintf(stderr, "troupe_trials: seed %llu: %s: %s\n",
        (unsigned long long)seed, what, text);
}

static bool
run_one(const troupe_system_options *options, troupe_trial_fn test, void *user)
{
    troupe_system *system = NULL;
    troupe_status status = troupe_system_create(options, &system);
    bool passed;

    if (status != TROUPE_OK) {
        complain(options->seed, "troupe_system_create", status);
        return false;
    }
    passed = test(system, user);
    if (!passed) {
        (void)fprintf(stderr,
            "troupe_trials: failed; repeat with "
            "TROUPE_SEED=%llu\n",
            (unsigned long long)options->seed);
    }
    status = troupe_system_destroy(system);
    if (status != TROUPE_OK) {
        complain(options->seed, "troupe_system_destroy", status);
        return false;
    }
    return passed;
}

uint64_t
troupe_trials(const troupe_system_options *options, uint64_t first_seed,
    uint32_t seeds, troupe_trial_fn test, void *user)
{
    troupe_system_options *copy = copy_options(options);
    uint64_t seed = first_seed;
    uint64_t failed = 0;

    if (seed_from_environment(&seed)) {
        seeds = 1;
    }
    if (copy == NULL) {
        complain(seed, "troupe_trials", TROUPE_E_NOMEM);
        return seed != 0 ? seed : 1;
    }
    for (uint32_t i = 0; i < seeds && failed == 0; i++) {
        copy->seed = seed + i != 0 ? seed + i : 1; /* 0 is no seed */
        if (!run_one(copy, test, user)) {
            failed = copy->seed;
        }
    }
    free(copy);
    return failed;
}
