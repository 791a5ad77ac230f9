/* SPDX-License-Identifier: MIT */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

/* What troupe-bench prints. */

#include "rows.h"

void bench_report_list(void);
void bench_report_head(void);
/* One line per row for people: medians of `count` results, which it sorts. */
void bench_report_row(
    const struct bench_row *row, struct bench_result *results, size_t count);
/* One line per run for programs. */
void bench_report_csv(
    const struct bench_row *row, const struct bench_result *result);

/* On stderr, and only if that is a terminal. */
void bench_report_progress(
    const struct bench_row *row, uint32_t run, uint32_t runs);
void bench_report_progress_end(void);

#endif /* BENCH_REPORT_H */
