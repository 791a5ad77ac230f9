/* SPDX-License-Identifier: MIT */
#include "rows.h"

#include <string.h>

const struct bench_row bench_rows[] = {
#define BENCH_ROW_ENTRY(name, run, counted, text) {#name, run, counted, text},
    BENCH_ROW_MAP(BENCH_ROW_ENTRY)
#undef BENCH_ROW_ENTRY
};
const size_t bench_row_count = sizeof bench_rows / sizeof bench_rows[0];

const struct bench_row *
bench_row_find(const char *name)
{
    for (size_t i = 0; i < bench_row_count; i++) {
        if (strcmp(bench_rows[i].name, name) == 0) {
            return &bench_rows[i];
        }
    }
    return NULL;
}
