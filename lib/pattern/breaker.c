/* SPDX-License-Identifier: MIT */
#include "pattern/breaker.h"

#include "base/options.h"
#include "system/system.h"

#include <string.h>

#define TOLD_MOST 32u

enum outcome { SUCCEEDED, FAILED, UNCOUNTED, LATE, REFUSED, OUTCOMES };

/* By different threads in different lines, most of the time. */
#define STRIPES_LOG2 3
struct stripe {
    TRP_ALIGNED(TRP_CACHE_LINE) TRP_ATOMIC(uint64_t) count[OUTCOMES];
};

struct troupe_breaker {
    /* constant */
    troupe_system *system;
    uint32_t max_failures;
    uint64_t reset_ns;
    uint64_t call_ns;
    troupe_breaker_counts_fn counts;
    troupe_breaker_listen_fn listen;
    void *user;
    char name[64];

    /* any thread reads */
    TRP_ALIGNED(TRP_CACHE_LINE) TRP_ATOMIC(uint64_t) state; /* locked writes */
    TRP_ATOMIC(uint64_t) failures;   /* leave() writes, too */
    TRP_ATOMIC(uint64_t) until_ns;   /* of OPEN; locked writes */
    TRP_ATOMIC(uint64_t) changes[3]; /* locked writes */

    struct trp_lock lock;

    /* under the lock */
    bool is_telling;
    uint8_t told[TOLD_MOST]; /* a ring: changes that the listener waits for */
    uint32_t told_first;
    uint32_t told_count;

    struct stripe stripes[1 << STRIPES_LOG2];
};

static unsigned
kind_of(uint64_t state)
{
    return state & (TRP_BREAKER_VERSION - 1);
}

static troupe_breaker_state
public_of(uint64_t state)
{
    return kind_of(state) == TRP_BREAKER_PROBING
               ? TROUPE_BREAKER_HALF_OPEN
               : (troupe_breaker_state)kind_of(state);
}

/* `failures` with none yet. */
static uint64_t
no_failure(uint64_t state)
{
    return state / TRP_BREAKER_VERSION << 32;
}

static void
count(troupe_breaker *breaker, enum outcome outcome)
{
    uint64_t mixed =
        (uint64_t)(uintptr_t)&trp_thread * UINT64_C(0x9e3779b97f4a7c15);
    struct stripe *stripe = &breaker->stripes[mixed >> (64 - STRIPES_LOG2)];

    (void)trp_add_relaxed(&stripe->count[outcome], 1); /* relaxed: statistic */
}

/* --- create and destroy --------------------------------------------------- */

static troupe_status
check_name(const char *name, const char *call)
{
    size_t length = strlen(name);

    if (length == 0 || length > 63) {
        return trp_refuse(TROUPE_E_INVALID, call, "name",
            "must have 1 to 63 bytes", "%.20s", name);
    }
    for (size_t i = 0; i < length; i++) {
        if ((unsigned char)name[i] < 0x20 || name[i] == 0x7f) {
            return trp_refuse(TROUPE_E_INVALID, call, "name",
                "must have no control character", "%.20s", name);
        }
    }
    return TROUPE_OK;
}

static troupe_status
copy_options(troupe_breaker_options *copy, const troupe_breaker_options *given,
    const char *call)
{
    troupe_status status = trp_options_copy(copy, sizeof *copy, given, call);

    if (status != TROUPE_OK) {
        return status;
    }
    if (copy->max_failures == 0 || copy->reset_ns == 0) {
        return trp_refuse(TROUPE_E_INVALID, call,
            copy->max_failures == 0 ? "max_failures" : "reset_ns",
            copy->max_failures == 0
                ? "must be at least 1"
                : "must be above 0, or TROUPE_RESET_AT_ONCE",
            "0");
    }
    if (copy->reserved != 0) {
        return trp_refuse(TROUPE_E_INVALID, call, "reserved", "must be 0", "%u",
            copy->reserved);
    }
    if (copy->name == NULL) {
        copy->name = "breaker";
    }
    return check_name(copy->name, call);
}

troupe_status
troupe_breaker_create(troupe_system *system,
    const troupe_breaker_options *given, troupe_breaker **result)
{
    static const char call[] = "troupe_breaker_create";
    troupe_status status = trp_system_check(system, call);
    const uint64_t state = TRP_BREAKER_VERSION | TROUPE_BREAKER_CLOSED;
    troupe_breaker_options options;
    troupe_breaker *breaker;

    if (status == TROUPE_OK && result == NULL) {
        status = trp_refuse(
            TROUPE_E_INVALID, call, "breaker", "must not be NULL", "NULL");
    }
    if (status == TROUPE_OK) {
        status = copy_options(&options, given, call);
    }
    if (status != TROUPE_OK) {
        return status;
    }
    breaker = trp_heap_alloc(&system->core.heap, sizeof *breaker);
    if (breaker == NULL) {
        return TROUPE_E_NOMEM;
    }
    breaker->system = system;
    breaker->max_failures = options.max_failures;
    breaker->reset_ns =
        options.reset_ns == TROUPE_RESET_AT_ONCE ? 0 : options.reset_ns;
    breaker->call_ns = options.call_ns;
    breaker->counts = options.counts;
    breaker->listen = options.listen;
    breaker->user = options.user;
    strcpy(breaker->name, options.name);
    /* relaxed, both: whoever shares the breaker publishes it. */
    trp_store_relaxed(&breaker->state, state);
    trp_store_relaxed(&breaker->failures, no_failure(state));
    trp_add_acq_rel(&system->open, 1); /* pairs: system.open */
    *result = breaker;
    return TROUPE_OK;
}

/* False for NULL, and in a forked child: what it holds is the parent's. */
static bool
is_usable(const troupe_breaker *breaker)
{
    return breaker != NULL && trp_core_is_alive(&breaker->system->core);
}

void
troupe_breaker_destroy(troupe_breaker *breaker)
{
    if (is_usable(breaker)) {
        troupe_system *system = breaker->system;

        trp_heap_free(&system->core.heap, breaker, sizeof *breaker);
        trp_sub_acq_rel(&system->open, 1); /* pairs: system.open */
    }
}

/* --- changes, under the lock ---------------------------------------------- */

static uint64_t
state_locked(const troupe_breaker *breaker)
{
    /* relaxed: only the holder of the lock writes it (B1). */
    return trp_load_relaxed(&breaker->state);
}

/* The newest takes the place of the last one when there is no more room. */
static void
note_change(troupe_breaker *breaker, troupe_breaker_state state)
{
    trp_count(&breaker->changes[state], 1);
    if (breaker->listen == NULL) {
        return;
    }
    if (breaker->told_count < TOLD_MOST) {
        breaker->told_count++;
    }
    breaker->told[(breaker->told_first + breaker->told_count - 1) % TOLD_MOST] =
        (uint8_t)state;
}

static void
change(troupe_breaker *breaker, unsigned kind)
{
    uint64_t before = state_locked(breaker);
    uint64_t state = before - kind_of(before) + TRP_BREAKER_VERSION + kind;

    /* relaxed: a CAS that still comes in fails, or is overwritten (B3). */
    trp_store_relaxed(&breaker->failures, no_failure(state));
    if (kind == TROUPE_BREAKER_OPEN) {
        trp_store_release(&breaker->until_ns, /* pairs: breaker.until */
            trp_clock_after(troupe_now_ns(breaker->system), breaker->reset_ns));
    }
    trp_store_release(&breaker->state, state); /* pairs: breaker.state */
    if (public_of(state) != public_of(before)) {
        note_change(breaker, public_of(state));
    }
}

/* Tells what waits to be told, unless another thread is at it (B5). */
static void
unlock_and_tell(troupe_breaker *breaker)
{
    while (breaker->told_count > 0 && !breaker->is_telling) {
        troupe_breaker_state state =
            (troupe_breaker_state)breaker->told[breaker->told_first];

        breaker->told_first = (breaker->told_first + 1) % TOLD_MOST;
        breaker->told_count--;
        breaker->is_telling = true;
        trp_lock_release(&breaker->lock);
        breaker->listen(breaker, state, breaker->user);
        trp_lock_acquire(&breaker->lock);
        breaker->is_telling = false;
    }
    trp_lock_release(&breaker->lock);
}

/* To `kind`, if nothing has changed since the caller read `seen`. */
static bool
change_from(troupe_breaker *breaker, uint64_t seen, unsigned kind)
{
    bool is_same;

    trp_lock_acquire(&breaker->lock);
    is_same = state_locked(breaker) == seen;
    if (is_same) {
        change(breaker, kind);
    }
    unlock_and_tell(breaker);
    return is_same;
}

/* --- enter ---------------------------------------------------------------- */

/* B4. False: its time is up, or something has changed. */
static bool
is_still_open(troupe_breaker *breaker, uint64_t state)
{
    uint64_t until_ns =
        trp_load_acquire(&breaker->until_ns); /* pairs: breaker.until */

    /* relaxed: ordered behind until_ns, which is all it is for. */
    return trp_load_relaxed(&breaker->state) == state &&
           troupe_now_ns(breaker->system) < until_ns;
}

/* Not closed: `state` becomes that of the probe, if there is to be one. */
static bool
begin_probe(troupe_breaker *breaker, uint64_t *state)
{
    unsigned kind = kind_of(*state);

    if (kind == TRP_BREAKER_PROBING ||
        (kind == TROUPE_BREAKER_OPEN && is_still_open(breaker, *state))) {
        return false;
    }
    trp_lock_acquire(&breaker->lock);
    *state = state_locked(breaker);
    kind = kind_of(*state);
    if (kind == TROUPE_BREAKER_HALF_OPEN ||
        (kind == TROUPE_BREAKER_OPEN && !is_still_open(breaker, *state))) {
        change(breaker, TRP_BREAKER_PROBING);
        *state = state_locked(breaker);
        kind = TROUPE_BREAKER_CLOSED; /* goes through (B2) */
    }
    unlock_and_tell(breaker);
    return kind == TROUPE_BREAKER_CLOSED;
}

troupe_status
troupe_breaker_enter(troupe_breaker *breaker, troupe_permit *permit)
{
    static const char call[] = "troupe_breaker_enter";
    uint64_t state;

    if (breaker == NULL || permit == NULL) {
        return trp_refuse(TROUPE_E_INVALID, call,
            breaker == NULL ? "breaker" : "permit", "must not be NULL", "NULL");
    }
    if (!is_usable(breaker)) {
        return trp_system_check(breaker->system, call);
    }
    state = trp_load_acquire(&breaker->state); /* pairs: breaker.state */
    if (TRP_UNLIKELY(kind_of(state) != TROUPE_BREAKER_CLOSED) &&
        !begin_probe(breaker, &state)) {
        count(breaker, REFUSED);
        return TROUPE_E_OPEN;
    }
    permit->id = state;
    return TROUPE_OK;
}

/* --- leave ---------------------------------------------------------------- */

/* Ends a row. */
static enum outcome
leave_succeeded(troupe_breaker *breaker, uint64_t state)
{
    uint64_t none = no_failure(state);
    /* relaxed: it publishes nothing; breaker.state comes first. */
    uint64_t found = trp_load_relaxed(&breaker->failures);

    while (found != none) {
        if (found >> 32 != none >> 32) {
            return LATE;
        }
        /* relaxed: as above. */
        if (trp_cas_relaxed(&breaker->failures, &found, none)) {
            break;
        }
    }
    return SUCCEEDED;
}

/* Makes a row longer; the last of it opens the breaker. */
static enum outcome
leave_failed(troupe_breaker *breaker, uint64_t state)
{
    uint64_t none = no_failure(state);
    uint64_t most = none + breaker->max_failures;
    /* relaxed: it publishes nothing; breaker.state comes first. */
    uint64_t found = trp_load_relaxed(&breaker->failures);

    do {
        if (found >> 32 != none >> 32) {
            return LATE;
        }
        /* relaxed: as above. */
    } while (found != most &&
             !trp_cas_relaxed(&breaker->failures, &found, found + 1));
    if (most - found <= 1) {
        (void)change_from(breaker, state, TROUPE_BREAKER_OPEN);
    }
    return FAILED;
}

static enum outcome
leave_probe(troupe_breaker *breaker, uint64_t state, enum outcome outcome)
{
    static const unsigned next[] = {[SUCCEEDED] = TROUPE_BREAKER_CLOSED,
        [FAILED] = TROUPE_BREAKER_OPEN,
        [UNCOUNTED] = TROUPE_BREAKER_HALF_OPEN};

    return change_from(breaker, state, next[outcome]) ? outcome : LATE;
}

static void
leave(troupe_breaker *breaker, troupe_permit permit, enum outcome outcome)
{
    uint64_t state =
        trp_load_acquire(&breaker->state); /* pairs: breaker.state */

    if (state != permit.id) {
        outcome = LATE;
    } else if (kind_of(state) == TRP_BREAKER_PROBING) {
        outcome = leave_probe(breaker, state, outcome);
    } else if (kind_of(state) != TROUPE_BREAKER_CLOSED) {
        outcome = LATE; /* nobody was given this permit */
    } else if (outcome == SUCCEEDED) {
        outcome = leave_succeeded(breaker, state);
    } else if (outcome == FAILED) {
        outcome = leave_failed(breaker, state);
    }
    count(breaker, outcome);
}

void
troupe_breaker_leave(troupe_breaker *breaker, troupe_permit permit,
    troupe_status status, int32_t code)
{
    enum outcome outcome = SUCCEEDED;

    if (!is_usable(breaker)) {
        return;
    }
    if (status != TROUPE_OK) {
        outcome = breaker->counts == NULL ||
                          breaker->counts(status, code, breaker->user)
                      ? FAILED
                      : UNCOUNTED;
    }
    leave(breaker, permit, outcome);
}

void
trp_breaker_give_back(troupe_breaker *breaker, troupe_permit permit)
{
    if (is_usable(breaker)) {
        leave(breaker, permit, UNCOUNTED);
    }
}

uint64_t
trp_breaker_call_ns(const troupe_breaker *breaker)
{
    return breaker->call_ns;
}

/* --- others --------------------------------------------------------------- */

troupe_breaker_state
troupe_breaker_state_now(const troupe_breaker *breaker)
{
    return is_usable(breaker) ? public_of(trp_load_acquire(
                                    &breaker->state)) /* pairs:
                                                         breaker.state */
                              : TROUPE_BREAKER_CLOSED;
}

void
troupe_breaker_force(troupe_breaker *breaker, troupe_breaker_state state)
{
    if (!is_usable(breaker) || (uint32_t)state > TROUPE_BREAKER_HALF_OPEN) {
        return;
    }
    trp_lock_acquire(&breaker->lock);
    if (public_of(state_locked(breaker)) != state) {
        change(breaker, (unsigned)state);
    }
    unlock_and_tell(breaker);
}

static uint64_t
sum(const troupe_breaker *breaker, enum outcome outcome)
{
    uint64_t total = 0;

    for (size_t i = 0; i < TRP_COUNT_OF(breaker->stripes); i++) {
        /* relaxed: statistic. */
        total += trp_load_relaxed(&breaker->stripes[i].count[outcome]);
    }
    return total;
}

void
trp_breaker_read(
    const troupe_breaker *breaker, struct trp_breaker_counts *counts)
{
    counts->succeeded = sum(breaker, SUCCEEDED);
    counts->failed = sum(breaker, FAILED);
    counts->uncounted = sum(breaker, UNCOUNTED);
    counts->late = sum(breaker, LATE);
    counts->refused = sum(breaker, REFUSED);
    for (size_t i = 0; i < TRP_COUNT_OF(counts->changes); i++) {
        /* relaxed: statistic. */
        counts->changes[i] = trp_load_relaxed(&breaker->changes[i]);
    }
}

const char *
trp_breaker_name(const troupe_breaker *breaker)
{
    return breaker->name;
}
