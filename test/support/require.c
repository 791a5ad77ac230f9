/* SPDX-License-Identifier: MIT */
#include "support/require.h"

#include <stdio.h>
#include <stdlib.h>

void
test_fail(const char *file, int line, const char *what)
{
    (void)fprintf(stderr, "%s:%d: %s\n", file, line, what);
    abort();
}
