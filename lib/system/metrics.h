/* SPDX-License-Identifier: MIT */
#ifndef TRP_SYSTEM_METRICS_H
#define TRP_SYSTEM_METRICS_H

/*
 * The registry of metrics: families, their series, and the words that they
 * count in.
 *
 *     id = key | index     series[index] -> series -> family
 *                                             |
 *                                             word w .. w + n - 1
 *
 *     shared   |64 words|128 words|256 words| ...   foreign threads, gauges
 *     worker 0 |64 words|    -    |256 words|       made when it first counts
 *     worker 1 |    -   |128 words|    -    |       something there
 *
 * A counter is one word, a double; a gauge too, which is in `shared` only; a
 * histogram is a number per bucket and the sum, a double. A word of a worker
 * has one writer. A scrape adds up; it takes no lock.
 *
 * Invariants
 *   R1  Families, series and words stay where they are until the system ends.
 *       A list only grows at its end, so who walks it needs no lock.
 *   R2  A family becomes visible with its first series, a series when its words
 *       exist in `shared`. A worker that has no memory for its own counts
 * there. R3  The lock is never held while memory is asked for or given back, a
 * line is logged, or somebody's function runs.
 *
 * Pairs
 *   metrics.words  store of a segment -> load of it: its words are zero.
 *   metrics.next   store of a link, or of a series in its place -> load of it:
 *                  what it leads to is complete.
 */

#include <troupe/metrics.h>

#include "base/align.h"
#include "base/heap.h"
#include "os/futex.h"
#include "system/exposition.h"

#define TRP_SERIES_DEFAULT 10000u
#define TRP_OVERFLOW "__overflow__"

/* Segment k has FIRST << k words: with 26 of them an index has 32 bits. */
#define TRP_WORDS_SEGMENTS 26u
#define TRP_WORDS_FIRST 64u

struct trp_words {
    TRP_ALIGNED(64)
    TRP_ATOMIC(TRP_ATOMIC(uint64_t) *) segment[TRP_WORDS_SEGMENTS];
};

struct trp_family;
struct trp_core;

struct trp_series {
    struct trp_family *family; /* constant, as all below but the links */
    TRP_ATOMIC(struct trp_series *) next; /* of the family */
    struct trp_series *same_bucket;       /* under lock */
    uint64_t hash;
    uint32_t index;
    uint32_t word;
    size_t bytes;  /* of all this */
    char values[]; /* in the order of the labels, each with its end */
};

#define TRP_SERIES_BUCKETS 256u

struct trp_metrics {
    /* constant after creation */
    struct trp_core *core;
    struct trp_words *shards; /* one per worker */
    uint32_t shard_count;
    uint32_t key; /* upper half of the ids; not 0 */

    /* any thread */
    TRP_ATOMIC(uint32_t) on;
    struct trp_words shared;
    struct trp_words series; /* pointers, by index */
    TRP_ATOMIC(struct trp_family *) first;

    /* under lock */
    struct trp_lock lock;
    struct trp_family *last;
    uint32_t word_count;
    uint32_t series_count;
    struct trp_series *bucket[TRP_SERIES_BUCKETS];
};

/* What a family is made of. All but `values` as troupe_metric_options. */
struct trp_metric {
    const char *name;
    const char *help;
    troupe_metric_kind kind;
    uint32_t max_series; /* not 0 */
    const char *const *labels;
    size_t label_count;
    const double *bounds;
    size_t bound_count;
};

/* False: no memory. Zeroed is allowed in fini. */
bool trp_metrics_init(struct trp_metrics *metrics, struct trp_core *core,
    uint32_t shards, uint32_t key);
void trp_metrics_fini(struct trp_metrics *metrics);

static inline bool
trp_metrics_are_on(const struct trp_metrics *metrics)
{
    /* relaxed: a switch; nothing hangs on when it is seen. */
    return trp_load_relaxed(&metrics->on) != 0;
}

/*
 * Finds or makes a series; `values` has one for each label. What it says was
 * checked but for what the family knows. Any thread.
 */
troupe_status trp_metrics_find(struct trp_metrics *metrics,
    const struct trp_metric *metric, const char *const *values,
    struct trp_series **series);

/* A run of `count` words for somebody's counters; false: no memory. */
bool trp_metrics_reserve(
    struct trp_metrics *metrics, uint32_t count, uint32_t *word);

/* Adds to a word that is a whole number: on this thread's shard. */
void trp_metrics_count(struct trp_metrics *metrics, uint32_t word, uint64_t n);
uint64_t trp_metrics_sum(struct trp_metrics *metrics, uint32_t word);
/* The same for a double. */
void trp_metrics_add(struct trp_metrics *metrics, uint32_t word, double amount);

/* All families that are in the registry. */
void trp_metrics_expose(
    struct trp_metrics *metrics, struct trp_exposition *out);

/* The samples of the two could have one name. */
bool trp_metric_names_clash(const char *a, troupe_metric_kind kind_of_a,
    const char *b, troupe_metric_kind kind_of_b);

#endif /* TRP_SYSTEM_METRICS_H */
