/* SPDX-License-Identifier: MIT */
#include "os/futex.h"

#include "base/clock.h"
#include "base/cpu.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

bool
trp_futex_wait(
    TRP_ATOMIC(uint32_t) * word, uint32_t value, uint64_t deadline_ns)
{
    struct timespec until;
    struct timespec *timeout = NULL;

    if (deadline_ns != TRP_FUTEX_FOREVER) {
        until.tv_sec = (time_t)(deadline_ns / UINT64_C(1000000000));
        until.tv_nsec = (long)(deadline_ns % UINT64_C(1000000000));
        timeout = &until;
    }
    /* BITSET: the time-out is absolute, so an early return costs no drift. */
    if (syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, value, timeout,
            NULL, FUTEX_BITSET_MATCH_ANY) != 0 &&
        errno == ETIMEDOUT) {
        return false;
    }
    return true;
}

void
trp_futex_wake(TRP_ATOMIC(uint32_t) * word, uint32_t count)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

/* Held sections are tens of nanoseconds: look a while before sleeping. */
void
trp_lock_acquire_slow(struct trp_lock *lock)
{
    for (int i = 0; i < 40; i++) {
        uint32_t found = 0;

        trp_cpu_relax();
        if (trp_cas_acq_rel(&lock->state, &found, 1)) { /* pairs: lock.held */
            return;
        }
    }
    while (trp_swap_acq_rel(&lock->state, 2) != 0) { /* pairs: lock.held */
        trp_futex_wait(&lock->state, 2, TRP_FUTEX_FOREVER);
    }
}
