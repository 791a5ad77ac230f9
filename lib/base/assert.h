/* SPDX-License-Identifier: MIT */
#ifndef TRP_BASE_ASSERT_H
#define TRP_BASE_ASSERT_H

/*
 * TRP_ASSERT: an invariant of ours, checked in builds with -Dchecks=true.
 * TRP_CHECK: the same where going on would corrupt memory; all builds. Neither
 * is ever reached by a wrong argument of a user: those get a status.
 */

void trp_panic(const char *file, int line, const char *what)
    __attribute__((noreturn, cold));

#define TRP_CHECK(expr)                                                        \
    ((expr) ? (void)0 : trp_panic(__FILE__, __LINE__, #expr))

#ifdef TRP_CHECKS
#define TRP_ASSERT(expr) TRP_CHECK(expr)
#else
#define TRP_ASSERT(expr) ((void)sizeof(expr))
#endif

#endif /* TRP_BASE_ASSERT_H */
