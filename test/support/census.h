/* SPDX-License-Identifier: MIT */
#ifndef TEST_SUPPORT_CENSUS_H
#define TEST_SUPPORT_CENSUS_H

/* What a process holds besides memory: threads and descriptors. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct test_census {
    uint32_t threads;
    uint32_t descriptors;
    uint32_t mappings;
};

struct test_census test_census(void);

/*
 * As many threads and descriptors as `before`; says what is not on stderr. A
 * thread that was joined may be listed a moment longer, so this waits for it.
 */
bool test_census_is(struct test_census before);

/* Resident memory of this process, in bytes. */
uint64_t test_resident_bytes(void);

/* Of a part of the address space; `at` is the start of a page. */
uint64_t test_resident_bytes_in(void *at, size_t bytes);

#endif /* TEST_SUPPORT_CENSUS_H */
