/* SPDX-License-Identifier: MIT */
#include "base/heap.h"

#include "support/alloc.h"

#include <criterion/criterion.h>

#include <string.h>

static struct trp_heap heap;
static struct test_alloc alloc;

static void
setup(void)
{
    trp_heap_init(&heap, test_alloc, test_free, &alloc);
}

TestSuite(base_heap, .init = setup);

Test(base_heap, memory_is_zeroed_and_aligned_to_a_cache_line)
{
    static const size_t sizes[] = {1, 7, 63, 64, 65, 4096, 1 << 20};

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        unsigned char *block = trp_heap_alloc(&heap, sizes[i]);

        cr_assert_not_null(block);
        cr_assert_eq((uintptr_t)block % 64, 0);
        for (size_t k = 0; k < sizes[i]; k++) {
            cr_assert_eq(block[k], 0);
        }
        memset(block, 0xff, sizes[i]);
        trp_heap_free(&heap, block, sizes[i]);
    }
    cr_assert(test_alloc_is_empty(&alloc));
}

Test(base_heap, live_bytes_is_what_was_not_given_back)
{
    void *a = trp_heap_alloc(&heap, 100);
    void *b = trp_heap_alloc(&heap, 28);

    cr_assert_eq(trp_load_relaxed(&heap.live_bytes), 128);
    trp_heap_free(&heap, a, 100);
    cr_assert_eq(trp_load_relaxed(&heap.live_bytes), 28);
    trp_heap_free(&heap, b, 28);
    cr_assert_eq(trp_load_relaxed(&heap.live_bytes), 0);
}

Test(base_heap, nothing_asked_for_is_still_a_block)
{
    void *block = trp_heap_alloc(&heap, 0);

    cr_assert_not_null(block);
    trp_heap_free(&heap, block, 0);
    cr_assert_eq(trp_load_relaxed(&heap.live_bytes), 0);
    cr_assert(test_alloc_is_empty(&alloc));
}

Test(base_heap, sizes_that_overflow_are_refused)
{
    cr_assert_null(trp_heap_alloc(&heap, SIZE_MAX));
    cr_assert_null(trp_heap_alloc(&heap, SIZE_MAX / 2 + 1));
    cr_assert_eq(alloc.requests, 0);
    cr_assert_eq(trp_load_relaxed(&heap.live_bytes), 0);
}

Test(base_heap, freeing_null_is_allowed)
{
    trp_heap_free(&heap, NULL, 100);
    cr_assert_eq(trp_load_relaxed(&heap.live_bytes), 0);
}

Test(base_heap, exactly_the_chosen_request_fails)
{
    trp_store_relaxed(&heap.fail_at, 3);
    for (int i = 1; i <= 6; i++) {
        void *block = trp_heap_alloc(&heap, 8);

        cr_assert_eq(block == NULL, i == 3, "request %d", i);
        trp_heap_free(&heap, block, 8);
    }
    cr_assert_eq(trp_load_relaxed(&heap.live_bytes), 0);
}

Test(base_heap, growth_that_is_asked_for_counts_as_a_request)
{
    trp_store_relaxed(&heap.fail_at, 2);
    cr_assert(trp_heap_may_grow(&heap));
    cr_assert_null(trp_heap_alloc(&heap, 8));
    cr_assert(trp_heap_may_grow(&heap));
}

Test(base_heap, a_failing_hook_gives_null_and_counts_nothing)
{
    alloc.fail_at = 1;
    cr_assert_null(trp_heap_alloc(&heap, 8));
    cr_assert_eq(trp_load_relaxed(&heap.live_bytes), 0);
}

Test(base_heap, without_hooks_the_c_library_serves)
{
    struct trp_heap plain;
    void *block;

    trp_heap_init(&plain, NULL, NULL, NULL);
    block = trp_heap_alloc(&plain, 100);
    cr_assert_not_null(block);
    cr_assert_eq((uintptr_t)block % 64, 0);
    cr_assert_eq(trp_load_relaxed(&plain.live_bytes), 100);
    trp_heap_free(&plain, block, 100);
    cr_assert_eq(trp_load_relaxed(&plain.live_bytes), 0);
}
