/* SPDX-License-Identifier: MIT */
#ifndef TRP_OS_ARENA_H
#define TRP_OS_ARENA_H

/*
 * Address space without memory. A reservation costs no memory and counts
 * against no commit limit (PROT_NONE); commit makes a part usable and zero;
 * decommit gives its pages back, it reads as zero afterwards. Sizes and
 * addresses are multiples of TRP_ARENA_PAGE. Any thread, any order.
 */

#include <stdbool.h>
#include <stddef.h>

#define TRP_ARENA_PAGE ((size_t)4096)

#define TRP_ARENA_HUGE ((size_t)2 * 1024 * 1024) /* a large page */

/* Aligned to TRP_ARENA_HUGE; NULL when there is no such address space. */
void *trp_arena_reserve(size_t bytes);
void trp_arena_release(void *base, size_t bytes); /* NULL is allowed */
bool trp_arena_commit(void *at, size_t bytes);
/* A committed part will all be used: large pages where there are any. A hint.
 */
void trp_arena_use_large_pages(void *at, size_t bytes);
void trp_arena_decommit(void *at, size_t bytes);

/* A page that a forked child finds zeroed, or NULL. */
void *trp_arena_fork_page(void);

#endif /* TRP_OS_ARENA_H */
