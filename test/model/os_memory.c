/* SPDX-License-Identifier: MIT */

/*
 * The memory calls under lib/os/arena.c (--wrap): address space is kept from
 * schedule to schedule, for it is slow to get and slower to give back. What was
 * made usable once stays so. Others, like the engine's stacks, pass through.
 */

#include "engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#define REGIONS_MAX 64
#define RANGES_MAX 32

struct range {
    char *begin, *end;
};

static struct region {
    char *base;
    size_t bytes;
    bool is_used;
    char *begin, *end; /* what the library has not cut off */
    struct range usable[RANGES_MAX];
    int ranges;
} regions[REGIONS_MAX];

/* glibc calls mmap() mmap64() where off_t is asked to have 64 bits. */
void *__real_mmap64(
    void *at, size_t bytes, int protection, int flags, int fd, off_t offset);
int __real_munmap(void *at, size_t bytes);
int __real_mprotect(void *at, size_t bytes, int protection);
int __real_madvise(void *at, size_t bytes, int advice);
void *__wrap_mmap64(
    void *at, size_t bytes, int protection, int flags, int fd, off_t offset);
int __wrap_munmap(void *at, size_t bytes);
int __wrap_mprotect(void *at, size_t bytes, int protection);
int __wrap_madvise(void *at, size_t bytes, int advice);

static void __attribute__((noreturn)) give_up(const char *why)
{
    fprintf(stderr, "memory of a model: %s\n", why);
    exit(2);
}

static struct region *
region_of(const void *at)
{
    const char *address = at;

    for (int i = 0; i < REGIONS_MAX; i++) {
        if (regions[i].base != NULL && address >= regions[i].base &&
            address < regions[i].base + regions[i].bytes) {
            return &regions[i];
        }
    }
    return NULL;
}

/* A reservation: one that was given back, or a new one. */
void *
__wrap_mmap64(
    void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    struct region *region = NULL;

    if (protection != PROT_NONE) {
        return __real_mmap64(at, bytes, protection, flags, fd, offset);
    }
    for (int i = 0; i < REGIONS_MAX && region == NULL; i++) {
        if (!regions[i].is_used &&
            (regions[i].base == NULL || regions[i].bytes == bytes)) {
            region = &regions[i];
        }
    }
    if (region == NULL) {
        give_up("too many regions");
    }
    if (region->base == NULL) {
        region->base = __real_mmap64(at, bytes, protection, flags, fd, offset);
        region->bytes = bytes;
        if (region->base == MAP_FAILED) {
            give_up("no address space");
        }
    }
    region->is_used = true;
    region->begin = region->base;
    region->end = region->base + bytes;
    return region->base;
}

/* Ends are cut off for alignment; the rest goes in one piece. */
int
__wrap_munmap(void *at, size_t bytes)
{
    struct region *region = region_of(at);
    char *begin = at;

    if (region == NULL) {
        return __real_munmap(at, bytes);
    }
    if (begin == region->begin && begin + bytes < region->end) {
        region->begin += bytes;
        return 0;
    }
    if (begin > region->begin && begin + bytes == region->end) {
        region->end -= bytes;
        return 0;
    }
    MODEL_ASSERT(begin == region->begin && begin + bytes == region->end);
    for (int i = 0; i < region->ranges; i++) {
        struct range *range = &region->usable[i];

        __real_madvise(
            range->begin, (size_t)(range->end - range->begin), MADV_DONTNEED);
    }
    region->is_used = false;
    return 0;
}

int
__wrap_mprotect(void *at, size_t bytes, int protection)
{
    struct region *region = region_of(at);
    char *begin = at;

    if (region == NULL) {
        return __real_mprotect(at, bytes, protection);
    }
    model_step(MODEL_AT("commit"));
    for (int i = 0; i < region->ranges; i++) {
        if (begin >= region->usable[i].begin &&
            begin + bytes <= region->usable[i].end) {
            return 0;
        }
    }
    if (region->ranges == RANGES_MAX ||
        __real_mprotect(at, bytes, protection) != 0) {
        give_up("no memory");
    }
    region->usable[region->ranges++] =
        (struct range){.begin = begin, .end = begin + bytes};
    return 0;
}

/* Pages are given back: a thread that still uses them may come before. */
int
__wrap_madvise(void *at, size_t bytes, int advice)
{
    if (advice != MADV_DONTNEED) {
        return 0; /* nothing that a model could tell apart */
    }
    model_step(MODEL_AT("decommit"));
    return __real_madvise(at, bytes, advice);
}
