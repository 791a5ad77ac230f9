/* SPDX-License-Identifier: MIT */
#ifndef BENCH_OPTIONS_H
#define BENCH_OPTIONS_H

/* The command line of troupe-bench. */

#include "rows.h"

enum bench_action {
    BENCH_ACTION_RUN,
    BENCH_ACTION_LIST,
    BENCH_ACTION_HELP,
    BENCH_ACTION_VERSION,
    BENCH_ACTION_REFUSE /* said why on stderr */
};

struct bench_options {
    struct bench_settings settings;
    uint32_t runs;
    bool csv;
    bool quick;
    size_t row_count; /* 0 = all */
    size_t *rows;     /* indices into bench_rows */
};

/* `options->rows` must have room for `argc` entries. */
enum bench_action bench_options_parse(
    int argc, char **argv, struct bench_options *options);
void bench_options_help(void);

#endif /* BENCH_OPTIONS_H */
