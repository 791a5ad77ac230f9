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

/* NULL when the address space is not to be had. */
void *trp_arena_reserve(size_t bytes);
void trp_arena_release(void *base, size_t bytes); /* NULL is allowed */
bool trp_arena_commit(void *at, size_t bytes);
void trp_arena_decommit(void *at, size_t bytes);

/* A page that a forked child finds zeroed, or NULL. */
void *trp_arena_fork_page(void);

#endif /* TRP_OS_ARENA_H */
