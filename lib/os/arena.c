/* SPDX-License-Identifier: MIT */
#include "os/arena.h"

#include <stdint.h>
#include <sys/mman.h>

void *
trp_arena_reserve(size_t bytes)
{
    size_t more = bytes + TRP_ARENA_HUGE;
    char *start, *base;
    size_t before;

    if (more < bytes) {
        return NULL;
    }
    start = mmap(NULL, more, PROT_NONE,
        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED) {
        return NULL;
    }
    before =
        (TRP_ARENA_HUGE - (uintptr_t)start % TRP_ARENA_HUGE) % TRP_ARENA_HUGE;
    base = start + before;
    if (before != 0) {
        munmap(start, before);
    }
    munmap(base + bytes, more - before - bytes);
    /* A core dump of gigabytes of nothing helps nobody; failure is harmless. */
    (void)madvise(base, bytes, MADV_DONTDUMP);
    return base;
}

void
trp_arena_release(void *base, size_t bytes)
{
    if (base != NULL) {
        munmap(base, bytes);
    }
}

bool
trp_arena_commit(void *at, size_t bytes)
{
    if (mprotect(at, bytes, PROT_READ | PROT_WRITE) != 0) {
        return false;
    }
    (void)madvise(at, bytes, MADV_DODUMP);
    return true;
}

void
trp_arena_use_large_pages(void *at, size_t bytes)
{
    (void)madvise(at, bytes, MADV_HUGEPAGE);
}

void
trp_arena_decommit(void *at, size_t bytes)
{
    (void)madvise(at, bytes, MADV_DONTNEED);
}

void *
trp_arena_fork_page(void)
{
    void *page = mmap(NULL, TRP_ARENA_PAGE, PROT_READ | PROT_WRITE,
        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (page == MAP_FAILED) {
        return NULL;
    }
    /* Kernels before 4.14 lack it: there a child is not recognised. */
    (void)madvise(page, TRP_ARENA_PAGE, MADV_WIPEONFORK);
    return page;
}
