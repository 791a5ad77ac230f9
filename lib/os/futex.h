/* SPDX-License-Identifier: MIT */
#ifndef TRP_OS_FUTEX_H
#define TRP_OS_FUTEX_H

/* Sleep until a word changes; the lock and the event that are built on it. */

#include "base/atomic.h"

#define TRP_FUTEX_FOREVER UINT64_MAX

/*
 * Sleeps while `*word` is `value`, at most until `deadline_ns` on the monotonic
 * clock. May return early for no reason: look at the word again. False only
 * when the deadline has passed.
 */
bool trp_futex_wait(
    TRP_ATOMIC(uint32_t) * word, uint32_t value, uint64_t deadline_ns);
/* Wakes at most `count` sleepers. Never blocks. */
void trp_futex_wake(TRP_ATOMIC(uint32_t) * word, uint32_t count);

/*
 * A lock of 4 bytes for cold paths; zero = free. Not recursive. Uncontended:
 * one compare-and-swap and one swap, no system call.
 */
struct trp_lock {
    TRP_ATOMIC(uint32_t) state; /* 0 free, 1 held, 2 held and waited for */
};

void trp_lock_acquire_slow(struct trp_lock *lock);

static inline void
trp_lock_acquire(struct trp_lock *lock)
{
    uint32_t found = 0;

    if (!trp_cas_acq_rel(&lock->state, &found, 1)) { /* pairs: lock.held */
        trp_lock_acquire_slow(lock);
    }
}

static inline void
trp_lock_release(struct trp_lock *lock)
{
    if (trp_swap_acq_rel(&lock->state, 0) == 2) { /* pairs: lock.held */
        trp_futex_wake(&lock->state, 1);
    }
}

#endif /* TRP_OS_FUTEX_H */
