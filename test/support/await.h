/* SPDX-License-Identifier: MIT */
#ifndef TEST_SUPPORT_AWAIT_H
#define TEST_SUPPORT_AWAIT_H

/*
 * Waiting for a condition, never for a time. The deadline is generous because
 * it only says how long a test that has failed already may hold up the others.
 */

#include <stdbool.h>
#include <stdint.h>

#define TEST_DEADLINE_NS (UINT64_C(60) * 1000000000)

/* Gives other threads the processor until `ready` says so; false = too late. */
bool test_await(bool (*ready)(void *user), void *user);

/* Until `*number` is at least `least`. */
bool test_await_at_least(_Atomic uint64_t *number, uint64_t least);

/* Now, without waiting. */
bool test_is_readable(int fd);

uint64_t test_clock_ns(void);

#endif /* TEST_SUPPORT_AWAIT_H */
