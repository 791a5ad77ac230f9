/* SPDX-License-Identifier: MIT */
#ifndef TEST_SUPPORT_REQUIRE_H
#define TEST_SUPPORT_REQUIRE_H

/*
 * Prints and ends the process: for what is not the point of a test, and for a
 * .fini, where Criterion forgets an assertion that fails, but not a crash.
 */
#define test_require(expr)                                                     \
    ((expr) ? (void)0 : test_fail(__FILE__, __LINE__, #expr))
void test_fail(const char *file, int line, const char *what)
    __attribute__((noreturn));

#endif /* TEST_SUPPORT_REQUIRE_H */
