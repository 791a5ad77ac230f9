/* SPDX-License-Identifier: MIT */
#include "report.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static double
rate(const struct bench_result *result)
{
    return result->seconds > 0 ? (double)result->messages / result->seconds : 0;
}

static int
compare_rates(const void *a, const void *b)
{
    double x = rate(a);
    double y = rate(b);

    return (x > y) - (x < y);
}

static int
compare_sizes(const void *a, const void *b)
{
    const struct bench_result *x = a;
    const struct bench_result *y = b;

    return (x->rss_kb > y->rss_kb) - (x->rss_kb < y->rss_kb);
}

void
bench_report_list(void)
{
    for (size_t i = 0; i < bench_row_count; i++) {
        printf("%-16s %-9s %s\n", bench_rows[i].name, bench_rows[i].counted,
            bench_rows[i].text);
    }
}

void
bench_report_head(void)
{
    printf("troupe %s\n", troupe_version_text());
    printf("%-16s %7s %11s %9s %19s %9s  %s\n", "row", "workers", "median M/s",
        "ns/op", "min..max M/s", "RSS MiB", "counted");
}

void
bench_report_row(
    const struct bench_row *row, struct bench_result *results, size_t count)
{
    double rss_mib = 0;
    double median = 0;
    size_t middle = count / 2;
    char spread[64];

    qsort(results, count, sizeof *results, compare_sizes);
    rss_mib = (double)results[middle].rss_kb / 1024;
    qsort(results, count, sizeof *results, compare_rates);
    median = rate(&results[middle]);
    if (count % 2 == 0) {
        median = (median + rate(&results[middle - 1])) / 2;
    }
    snprintf(spread, sizeof spread, "%.3f..%.3f", rate(&results[0]) * 1e-6,
        rate(&results[count - 1]) * 1e-6);
    printf("%-16s %7" PRIu32 " %11.3f %9.1f %19s %9.1f  %s%s%s\n", row->name,
        results[0].workers, median * 1e-6, median > 0 ? 1e9 / median : 0,
        spread, rss_mib, row->counted,
        results[middle].note[0] != '\0' ? "; " : "", results[middle].note);
    fflush(stdout);
}

void
bench_report_csv(const struct bench_row *row, const struct bench_result *result)
{
    printf("%s,troupe,%" PRIu32 ",%.9f,%" PRIu64 ",%.0f,%ld\n", row->name,
        result->workers, result->seconds, result->messages, rate(result),
        result->rss_kb);
    fflush(stdout);
}

void
bench_report_progress(const struct bench_row *row, uint32_t run, uint32_t runs)
{
    if (isatty(STDERR_FILENO) != 0) {
        fprintf(
            stderr, "\r\033[K%s %" PRIu32 "/%" PRIu32, row->name, run, runs);
        fflush(stderr);
    }
}

void
bench_report_progress_end(void)
{
    if (isatty(STDERR_FILENO) != 0) {
        fprintf(stderr, "\r\033[K");
        fflush(stderr);
    }
}
