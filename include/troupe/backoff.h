/* SPDX-License-Identifier: MIT */
#ifndef TROUPE_BACKOFF_H
#define TROUPE_BACKOFF_H

#include <troupe/types.h>

TROUPE_BEGIN_DECLS

typedef enum troupe_backoff_kind {
    TROUPE_BACKOFF_EXPONENTIAL = 0, /* min * 2^attempt */
    TROUPE_BACKOFF_LINEAR = 1       /* min + step * attempt */
} troupe_backoff_kind;

/* Instead of the formula; before clamp and jitter. Attempts count from 0. */
typedef uint64_t (*troupe_delay_fn)(
    uint64_t attempt, void *user) TROUPE_NOEXCEPT;

/* Uniform in [0, 1). Called once per delay, and not at all without jitter. */
typedef double (*troupe_random_fn)(void *user) TROUPE_NOEXCEPT;

#define TROUPE_JITTER_NONE (-1.0)

enum {
    TROUPE_BACKOFF_CLAMP_JITTER = 1u << 0 /* keep min and max after jitter */
};

/*
 * Delay before attempt n: the formula, cut to max_ns, then spread by
 * +/- jitter. Jitter comes after the cut, so without CLAMP_JITTER a delay may
 * leave [min_ns, max_ns] by that share. Saturates for any attempt.
 *
 * Both functions run inside the call that asks for the delay, on its thread; a
 * policy that several threads use needs functions that several threads may
 * call.
 */
typedef struct troupe_backoff {
    size_t size;
    troupe_backoff_kind kind;
    uint32_t flags;        /* TROUPE_BACKOFF_* */
    uint64_t min_ns;       /* 0 is a legal floor; exponential, it stays 0 */
    uint64_t max_ns;       /* required, >= min_ns */
    uint64_t step_ns;      /* linear only */
    double jitter;         /* 0..1; 0 = 0.2; or TROUPE_JITTER_NONE */
    troupe_delay_fn delay; /* NULL = kind */
    void *delay_user;
    /*
     * NULL = the thread's own generator; inside a behaviour that of the worker,
     * so in a simulation the seed decides.
     */
    troupe_random_fn random;
    void *random_user;
} troupe_backoff;

/* Everything that takes a policy checks it; this is for early answers. */
TROUPE_API TROUPE_NODISCARD troupe_status troupe_backoff_check(
    const troupe_backoff *policy);

/* 0 for a policy that does not check. Any thread, needs no system. */
TROUPE_API uint64_t troupe_backoff_delay_ns(
    const troupe_backoff *policy, uint64_t attempt);

TROUPE_END_DECLS

#endif /* TROUPE_BACKOFF_H */
