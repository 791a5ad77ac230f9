/* SPDX-License-Identifier: MIT */
#ifndef TROUPE_METRICS_H
#define TROUPE_METRICS_H

#include <troupe/counters.h>

TROUPE_BEGIN_DECLS

/*
 * The registry: the stock metrics (docs/metrics.md) and your own. A metric is a
 * family; a series is the family with label values, a small value to keep and
 * use on the hot path: counters and histograms are a store or two in the
 * worker's own shard, a gauge is one word that all threads share. All-zero is a
 * series that swallows everything, and so is one of another system. Frozen.
 */
typedef struct troupe_series {
    uint64_t id;
} troupe_series;

typedef enum troupe_metric_kind {
    TROUPE_METRIC_COUNTER = 0,
    TROUPE_METRIC_GAUGE = 1,
    TROUPE_METRIC_HISTOGRAM = 2
} troupe_metric_kind;

/* Of a family that exists already only name, kind and labels are looked at. */
typedef struct troupe_metric_options {
    size_t size;
    /* [a-zA-Z_:][a-zA-Z0-9_:]*; copied. Not the library's: troupe_*, stock. */
    const char *name;
    const char *help; /* copied; NULL = "" */
    troupe_metric_kind kind;
    uint32_t max_series;       /* 0 = 10 000; then "__overflow__" */
    const char *const *labels; /* names, NULL at the end; NULL = none */
    const double *bounds;      /* histogram, inclusive, rising */
    size_t bound_count;        /* 0 = .005 to 10 */
} troupe_metric_options;

/*
 * Finds or makes the series with these label values (one per label name, NULL
 * at the end). E_EXISTS: the name is another kind, a stock metric, or a sample
 * of a histogram's ("x_count"). E_INVALID: anything else that is wrong, or the
 * family has other labels. E_NOMEM. Beyond `max_series` it is the one series of
 * the family whose values are all "__overflow__", and a line in the log says
 * so, once. Any thread, metrics on or off; takes a lock, so do it once. The
 * series lives as long as the system.
 */
TROUPE_API TROUPE_NODISCARD troupe_status troupe_metric_series(
    troupe_system *system, const troupe_metric_options *options,
    const char *const *values, troupe_series *series);

/*
 * Any thread, no lock. add: counters and gauges; set: gauges; observe:
 * histograms. Of the wrong kind, not finite, or negative to a counter: nothing.
 * While metrics are off counters and histograms stand still; gauges follow, so
 * that they are right when metrics are switched on.
 */
TROUPE_API void troupe_metric_add(
    troupe_system *system, troupe_series series, double amount);
TROUPE_API void troupe_metric_set(
    troupe_system *system, troupe_series series, double value);
TROUPE_API void troupe_metric_observe(
    troupe_system *system, troupe_series series, double value);

/*
 * On or off, from now on; any thread. TROUPE_METRICS and `options.metrics` say
 * what it is at first. What the runtime counts anyway is right whenever it is
 * switched on; docs/metrics.md says what begins only then.
 */
TROUPE_API void troupe_metrics_enable(troupe_system *system, bool on);

typedef enum troupe_metrics_format {
    TROUPE_METRICS_PROMETHEUS = 0, /* text 0.0.4 */
    TROUPE_METRICS_JSON = 1
} troupe_metrics_format;

/*
 * All metrics, piece by piece on the calling thread, under no lock; `write`
 * returns false to end, and may call the library. While metrics are off there
 * are none: no text, or a JSON document with an empty list. Any thread; no
 * worker waits for it. At most once a second it looks at every cell, for
 * mailboxes that are deep. E_INVALID, E_NOMEM: nothing was written.
 */
typedef bool (*troupe_write_fn)(
    const char *text, size_t bytes, void *user) TROUPE_NOEXCEPT;
TROUPE_API troupe_status troupe_metrics_write(troupe_system *system,
    troupe_metrics_format format, troupe_write_fn write, void *user);

TROUPE_END_DECLS

#endif /* TROUPE_METRICS_H */
