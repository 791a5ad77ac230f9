/* SPDX-License-Identifier: MIT */
#ifndef TEST_SUPPORT_ALLOC_H
#define TEST_SUPPORT_ALLOC_H

/*
 * Allocator hooks that count, check and fail. Zeroed is ready for use:
 *
 *     static struct test_alloc alloc;
 *     options.alloc = test_alloc; options.free = test_free;
 *     options.alloc_user = &alloc;
 *
 * A block given back with another size than it was asked for, or twice, ends
 * the process. Any thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct test_alloc {
    _Atomic uint64_t live_blocks;
    _Atomic uint64_t live_bytes;
    _Atomic uint64_t requests;
    _Atomic uint64_t fail_at; /* this request fails, counted from 1; 0 = none */
    _Atomic uint64_t fail_above; /* so does every one of more bytes; 0 = none */
};

void *test_alloc(size_t bytes, size_t align, void *user);
void test_free(void *block, size_t bytes, void *user);

/* Nothing is live; says what is on stderr. */
bool test_alloc_is_empty(struct test_alloc *alloc);

#endif /* TEST_SUPPORT_ALLOC_H */
