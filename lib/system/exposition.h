/* SPDX-License-Identifier: MIT */
#ifndef TRP_SYSTEM_EXPOSITION_H
#define TRP_SYSTEM_EXPOSITION_H

/*
 * Writes metrics as text, piece by piece: Prometheus text 0.0.4 or JSON. Knows
 * nothing of where numbers come from.
 *
 *     begin { family { value | histogram }* }* end
 *
 * Bytes that are not UTF-8 become U+FFFD: a scraper refuses all of a text that
 * has them. A number that JSON has no word for is null there.
 */

#include <troupe/metrics.h>

struct trp_label {
    const char *name;
    const char *value;
};

struct trp_exposition {
    troupe_metrics_format format;
    troupe_write_fn write;
    void *user;
    bool is_over;    /* the user has seen enough */
    bool has_family; /* JSON: commas */
    bool has_series;
    const char *name; /* of the family */
    troupe_metric_kind kind;
    size_t used;
    char text[4096];
};

void trp_exposition_begin(struct trp_exposition *out,
    troupe_metrics_format format, troupe_write_fn write, void *user);
void trp_exposition_end(struct trp_exposition *out);

/* `name` must outlive the family. */
void trp_exposition_family(struct trp_exposition *out, const char *name,
    const char *help, troupe_metric_kind kind);

/* Of a counter or gauge. Labels sorted by name. */
void trp_exposition_value(struct trp_exposition *out,
    const struct trp_label *labels, size_t label_count, double value);

/* `counts` has one more than there are bounds, each for itself. */
struct trp_histogram {
    const double *bounds;
    size_t bound_count;
    const uint64_t *counts;
    double sum;
};
void trp_exposition_histogram(struct trp_exposition *out,
    const struct trp_label *labels, size_t label_count,
    const struct trp_histogram *histogram);

#endif /* TRP_SYSTEM_EXPOSITION_H */
