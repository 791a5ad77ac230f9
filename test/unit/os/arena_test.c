/* SPDX-License-Identifier: MIT */
#include "os/arena.h"

#include "support/census.h"

#include <criterion/criterion.h>

#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGES(n) ((n)*TRP_ARENA_PAGE)

static bool
is_zero(const char *at, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        if (at[i] != 0) {
            return false;
        }
    }
    return true;
}

Test(os_arena, a_reservation_costs_no_memory)
{
    uint64_t before = test_resident_bytes();
    size_t bytes = (size_t)64 << 30;
    char *base = trp_arena_reserve(bytes);

    cr_assert_not_null(base);
    cr_assert_eq((uintptr_t)base % TRP_ARENA_PAGE, 0);
    cr_assert_lt(test_resident_bytes(), before + (1 << 20));
    trp_arena_release(base, bytes);
}

Test(os_arena, what_cannot_be_had_is_null)
{
    cr_assert_null(trp_arena_reserve(SIZE_MAX & ~(TRP_ARENA_PAGE - 1)));
}

Test(os_arena, releasing_null_is_allowed)
{
    trp_arena_release(NULL, PAGES(1));
}

Test(os_arena, committed_memory_is_zero_and_can_be_written)
{
    char *base = trp_arena_reserve(PAGES(16));

    cr_assert(trp_arena_commit(base + PAGES(4), PAGES(8)));
    cr_assert(is_zero(base + PAGES(4), PAGES(8)));
    memset(base + PAGES(4), 1, PAGES(8));
    trp_arena_release(base, PAGES(16));
}

Test(os_arena, committing_again_changes_nothing)
{
    char *base = trp_arena_reserve(PAGES(4));

    cr_assert(trp_arena_commit(base, PAGES(2)));
    base[0] = 7;
    cr_assert(trp_arena_commit(base, PAGES(4)));
    cr_assert_eq(base[0], 7);
    cr_assert(is_zero(base + PAGES(2), PAGES(2)));
    trp_arena_release(base, PAGES(4));
}

Test(os_arena, decommitted_memory_is_given_back_and_reads_as_zero)
{
    size_t bytes = 64 << 20;
    char *base = trp_arena_reserve(bytes);
    uint64_t full;

    cr_assert(trp_arena_commit(base, bytes));
    memset(base, 1, bytes);
    full = test_resident_bytes();
    trp_arena_decommit(base, bytes);
    cr_assert_lt(test_resident_bytes(), full - (bytes - bytes / 8));
    cr_assert(is_zero(base, bytes));
    base[bytes - 1] = 1; /* still usable */
    trp_arena_release(base, bytes);
}

Test(os_arena, what_is_not_committed_cannot_be_touched, .signal = SIGSEGV)
{
    volatile char *base = trp_arena_reserve(PAGES(2));

    cr_assert(trp_arena_commit((void *)base, PAGES(1)));
    base[PAGES(1)] = 1;
}

Test(os_arena, a_release_gives_the_mapping_back)
{
    uint32_t before = test_census().mappings;
    char *base = trp_arena_reserve(PAGES(16));

    cr_assert(trp_arena_commit(base + PAGES(4), PAGES(4)));
    cr_assert_gt(test_census().mappings, before);
    trp_arena_release(base, PAGES(16));
    cr_assert_leq(test_census().mappings, before);
}

Test(os_arena, a_forked_child_finds_the_fork_page_zeroed)
{
    char *page = trp_arena_fork_page();
    int status;
    pid_t child;

    cr_assert_not_null(page);
    page[0] = 1;
    child = fork();
    if (child == 0) {
        _exit(page[0] == 0 ? 0 : 1);
    }
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    cr_assert_eq(page[0], 1);
    trp_arena_release(page, TRP_ARENA_PAGE);
}
