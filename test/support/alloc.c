/* SPDX-License-Identifier: MIT */
#include "support/alloc.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define LIVE UINT64_C(0x6c697665626c6f63)
#define FREED UINT64_C(0x6672656564626c6f)

/* Lies directly before what the caller gets. */
struct header {
    uint64_t state;
    void *start;
    size_t bytes;
};

static void
fail(const char *what, size_t bytes)
{
    (void)fprintf(stderr, "test_alloc: %s (%zu bytes)\n", what, bytes);
    abort();
}

void *
test_alloc(size_t bytes, size_t align, void *user)
{
    struct test_alloc *alloc = user;
    uint64_t nth = atomic_fetch_add(&alloc->requests, 1) + 1;
    uint64_t above = atomic_load(&alloc->fail_above);
    struct header *header;
    char *start;
    char *block;

    if (align == 0 || (align & (align - 1)) != 0) {
        fail("alignment is no power of two", align);
    }
    if (bytes == 0) {
        fail("nothing was asked for", bytes);
    }
    if (nth == atomic_load(&alloc->fail_at) || (above != 0 && bytes > above)) {
        return NULL;
    }
    start = malloc(sizeof *header + align + bytes);
    if (start == NULL) {
        return NULL;
    }
    block = start + sizeof *header;
    block += (align - (uintptr_t)block % align) % align;
    header = (struct header *)(void *)(block - sizeof *header);
    header->state = LIVE;
    header->start = start;
    header->bytes = bytes;
    atomic_fetch_add(&alloc->live_blocks, 1);
    atomic_fetch_add(&alloc->live_bytes, bytes);
    return block;
}

void
test_free(void *block, size_t bytes, void *user)
{
    struct test_alloc *alloc = user;
    struct header *header =
        (struct header *)(void *)((char *)block - sizeof *header);

    if (header->state != LIVE) {
        fail("given back twice, or never handed out", bytes);
    }
    if (header->bytes != bytes) {
        fail("given back with another size", bytes);
    }
    header->state = FREED;
    atomic_fetch_sub(&alloc->live_blocks, 1);
    atomic_fetch_sub(&alloc->live_bytes, bytes);
    free(header->start);
}

bool
test_alloc_is_empty(struct test_alloc *alloc)
{
    uint64_t blocks = atomic_load(&alloc->live_blocks);
    uint64_t bytes = atomic_load(&alloc->live_bytes);

    if (blocks != 0 || bytes != 0) {
        (void)fprintf(stderr,
            "test_alloc: %" PRIu64 " blocks of %" PRIu64 " bytes are live\n",
            blocks, bytes);
    }
    return blocks == 0 && bytes == 0;
}
