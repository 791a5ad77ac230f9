/* SPDX-License-Identifier: MIT */
#include "base/assert.h"

#include <stdio.h>
#include <stdlib.h>

void
trp_panic(const char *file, int line, const char *what)
{
    fprintf(stderr, "troupe: %s:%d: broken invariant: %s\n", file, line, what);
    abort();
}
