/* SPDX-License-Identifier: MIT */
#include "system/metrics.h"

#include "actor/core.h"
#include "base/bits.h"
#include "base/hash.h"
#include "base/options.h"
#include "system/stock_metrics.h"
#include "system/system.h"

#include <math.h>
#include <string.h>

/* The registry, and the calls that count. */

#define LABELS_MOST 32u
#define BOUNDS_MOST 200u
/* Of all segments; an index of 32 bits can name them. */
#define WORDS_MOST                                                             \
    (((uint64_t)TRP_WORDS_FIRST << TRP_WORDS_SEGMENTS) - TRP_WORDS_FIRST)

static const char series_call[] = "troupe_metric_series";

struct trp_family {
    TRP_ATOMIC(struct trp_family *) next; /* under lock; read by all */
    TRP_ATOMIC(struct trp_series *) first;
    struct trp_series *last; /* under lock */
    uint32_t series_count;   /* under lock */
    bool is_told;            /* under lock: it overflows, the log says so */

    /* constant; what they point to is behind this struct */
    size_t bytes;
    const char *name;
    const char *help;
    troupe_metric_kind kind;
    uint32_t max_series;
    uint32_t label_count;
    uint32_t bound_count;
    const char **labels;
    uint32_t *order; /* of the labels, by name */
    double *bounds;
};

/* --- words ---------------------------------------------------------------- */

static uint32_t
segment_of(uint32_t index)
{
    return 31 - (uint32_t)__builtin_clz(index / TRP_WORDS_FIRST + 1);
}

static uint32_t
words_of_segment(uint32_t segment)
{
    return TRP_WORDS_FIRST << segment;
}

static size_t
bytes_of_segment(uint32_t segment)
{
    return (size_t)words_of_segment(segment) * sizeof(uint64_t);
}

/* NULL: the segment does not exist. */
static TRP_ATOMIC(uint64_t) *
    word_at(const struct trp_words *words, uint32_t index)
{
    uint32_t segment = segment_of(index);
    TRP_ATOMIC(uint64_t) *first =
        trp_load_acquire(&words->segment[segment]); /* pairs: metrics.words */

    return first != NULL
               ? first + (index - (words_of_segment(segment) - TRP_WORDS_FIRST))
               : NULL;
}

static void
put_segment(struct trp_words *words, uint32_t segment, void *block)
{
    trp_store_release(&words->segment[segment], block); /* pairs:
                                                           metrics.words */
}

/* This worker's, made if need be. NULL: no memory. */
static TRP_ATOMIC(uint64_t) * own_word(struct trp_metrics *metrics,
                                  struct trp_words *shard, uint32_t index)
{
    TRP_ATOMIC(uint64_t) *word = word_at(shard, index);

    if (TRP_UNLIKELY(word == NULL)) {
        uint32_t segment = segment_of(index);
        void *block =
            trp_heap_alloc(&metrics->core->heap, bytes_of_segment(segment));

        if (block == NULL) {
            return NULL; /* R2 */
        }
        put_segment(shard, segment, block);
        word = word_at(shard, index);
    }
    return word;
}

static void
free_words(struct trp_metrics *metrics, struct trp_words *words)
{
    for (uint32_t i = 0; i < TRP_WORDS_SEGMENTS; i++) {
        /* relaxed: no other thread is left. */
        trp_heap_free(&metrics->core->heap,
            (void *)trp_load_relaxed(&words->segment[i]), bytes_of_segment(i));
    }
}

/* --- counting ------------------------------------------------------------- */

/* The word of this thread, in `*is_own` if nobody else writes it. */
static TRP_ATOMIC(uint64_t) *
    word_here(struct trp_metrics *metrics, uint32_t index, bool *is_own)
{
    struct trp_local *local = trp_local_here(metrics->core);
    TRP_ATOMIC(uint64_t) *word =
        local != NULL
            ? own_word(metrics, &metrics->shards[local->worker->index], index)
            : NULL;

    *is_own = word != NULL;
    return word != NULL ? word : word_at(&metrics->shared, index);
}

static void
add_shared(TRP_ATOMIC(uint64_t) * word, double amount)
{
    uint64_t bits = trp_load_relaxed(word); /* relaxed: statistic */

    while (!trp_cas_relaxed(/* relaxed: statistic */
        word, &bits, trp_bits_of_double(trp_bits_to_double(bits) + amount))) {
    }
}

void
trp_metrics_add(struct trp_metrics *metrics, uint32_t word, double amount)
{
    bool is_own;
    TRP_ATOMIC(uint64_t) *at = word_here(metrics, word, &is_own);

    if (TRP_LIKELY(is_own)) {
        trp_count_double(at, amount);
    } else {
        add_shared(at, amount);
    }
}

void
trp_metrics_count(struct trp_metrics *metrics, uint32_t word, uint64_t n)
{
    bool is_own;
    TRP_ATOMIC(uint64_t) *at = word_here(metrics, word, &is_own);

    if (TRP_LIKELY(is_own)) {
        trp_count(at, n);
    } else {
        trp_add_relaxed(at, n); /* relaxed: statistic */
    }
}

static uint64_t
load_word(const struct trp_words *words, uint32_t index)
{
    TRP_ATOMIC(uint64_t) *word = word_at(words, index);

    return word != NULL ? trp_load_relaxed(word) : 0; /* relaxed: statistic */
}

uint64_t
trp_metrics_sum(struct trp_metrics *metrics, uint32_t word)
{
    uint64_t sum = load_word(&metrics->shared, word);

    for (uint32_t i = 0; i < metrics->shard_count; i++) {
        sum += load_word(&metrics->shards[i], word);
    }
    return sum;
}

static double
sum_doubles(struct trp_metrics *metrics, uint32_t word)
{
    double sum = trp_bits_to_double(load_word(&metrics->shared, word));

    for (uint32_t i = 0; i < metrics->shard_count; i++) {
        sum += trp_bits_to_double(load_word(&metrics->shards[i], word));
    }
    return sum;
}

/* --- finding -------------------------------------------------------------- */

struct request {
    const struct trp_metric *metric;
    const char *const *values;
    const char *overflow[LABELS_MOST]; /* what `values` becomes then */
    uint64_t hash;
    bool is_overflow;
    bool is_news; /* the first to overflow */
};

/* Blocks that are needed before a series can be made. */
enum block { FAMILY, SERIES, WORDS, PLACES, BLOCKS, COMPLETE, REFUSED };

struct blocks {
    void *memory[BLOCKS];
    size_t bytes[BLOCKS];
    size_t wanted; /* of the one that is missing */
};

static uint64_t
hash_values(const struct request *request)
{
    const char *name = request->metric->name;
    uint64_t hash = trp_hash_bytes64(name, strlen(name));

    for (size_t i = 0; i < request->metric->label_count; i++) {
        const char *value = request->values[i];

        hash = trp_hash_mix64(hash ^ trp_hash_bytes64(value, strlen(value)));
    }
    return hash;
}

static bool
has_values(const struct trp_series *series, const struct request *request)
{
    const char *at = series->values;

    for (uint32_t i = 0; i < series->family->label_count; i++) {
        if (strcmp(at, request->values[i]) != 0) {
            return false;
        }
        at += strlen(at) + 1;
    }
    return true;
}

static struct trp_series *
find_series_locked(struct trp_metrics *metrics, const struct trp_family *family,
    const struct request *request)
{
    struct trp_series *series =
        metrics->bucket[request->hash % TRP_SERIES_BUCKETS];

    while (series != NULL &&
           (series->hash != request->hash || series->family != family ||
               !has_values(series, request))) {
        series = series->same_bucket;
    }
    return series;
}

static struct trp_family *
first_family(const struct trp_metrics *metrics)
{
    return trp_load_acquire(&metrics->first); /* pairs: metrics.next */
}

static struct trp_family *
next_family(const struct trp_family *family)
{
    return trp_load_acquire(&family->next); /* pairs: metrics.next */
}

/* One of the samples of histogram `a` is called `b`. */
static bool
is_sample_of(const char *a, const char *b)
{
    static const char *const suffixes[] = {"_bucket", "_sum", "_count"};
    size_t length = strlen(a);

    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        if (strncmp(a, b, length) == 0 &&
            strcmp(b + length, suffixes[i]) == 0) {
            return true;
        }
    }
    return false;
}

bool
trp_metric_names_clash(const char *a, troupe_metric_kind kind_of_a,
    const char *b, troupe_metric_kind kind_of_b)
{
    return strcmp(a, b) == 0 ||
           (kind_of_a == TROUPE_METRIC_HISTOGRAM && is_sample_of(a, b)) ||
           (kind_of_b == TROUPE_METRIC_HISTOGRAM && is_sample_of(b, a));
}

/* NULL: none of this name. REFUSED in `*next`: one that forbids it. */
static struct trp_family *
find_family_locked(struct trp_metrics *metrics, const struct trp_metric *metric,
    enum block *next)
{
    for (struct trp_family *family = first_family(metrics); family != NULL;
         family = next_family(family)) {
        if (family->kind == metric->kind &&
            strcmp(family->name, metric->name) == 0) {
            return family;
        }
        if (trp_metric_names_clash(
                family->name, family->kind, metric->name, metric->kind)) {
            *next = REFUSED;
            return family;
        }
    }
    return NULL;
}

static bool
has_labels(const struct trp_family *family, const struct trp_metric *metric)
{
    bool same = family->label_count == metric->label_count;

    for (uint32_t i = 0; same && i < family->label_count; i++) {
        same = strcmp(family->labels[i], metric->labels[i]) == 0;
    }
    return same;
}

/* --- making --------------------------------------------------------------- */

static uint32_t
words_of(troupe_metric_kind kind, size_t bound_count)
{
    return kind == TROUPE_METRIC_HISTOGRAM ? (uint32_t)bound_count + 2 : 1;
}

static size_t
bytes_of_family(const struct trp_metric *metric)
{
    size_t bytes = sizeof(struct trp_family) +
                   metric->label_count * (sizeof(char *) + sizeof(uint32_t)) +
                   metric->bound_count * sizeof(double) + strlen(metric->name) +
                   1 + strlen(metric->help) + 1;

    for (size_t i = 0; i < metric->label_count; i++) {
        bytes += strlen(metric->labels[i]) + 1;
    }
    return bytes;
}

static size_t
bytes_of_series(const struct request *request)
{
    size_t bytes = sizeof(struct trp_series);

    for (size_t i = 0; i < request->metric->label_count; i++) {
        bytes += strlen(request->values[i]) + 1;
    }
    return bytes;
}

/* Copies a text to `*at`, which moves on. */
static const char *
store_text(char **at, const char *text)
{
    char *to = *at;

    strcpy(to, text);
    *at += strlen(text) + 1;
    return to;
}

static void
sort_labels(struct trp_family *family)
{
    for (uint32_t i = 0; i < family->label_count; i++) {
        uint32_t at = i;

        for (; at > 0 && strcmp(family->labels[family->order[at - 1]],
                             family->labels[i]) > 0;
             at--) {
            family->order[at] = family->order[at - 1];
        }
        family->order[at] = i;
    }
}

/* Private still. In the order of alignment: doubles, pointers, numbers, text.
 */
static void
fill_family(
    struct trp_family *family, size_t bytes, const struct trp_metric *metric)
{
    char *at = (char *)(family + 1);

    family->bytes = bytes;
    family->kind = metric->kind;
    family->max_series = metric->max_series;
    family->label_count = (uint32_t)metric->label_count;
    family->bound_count = (uint32_t)metric->bound_count;
    family->bounds = (double *)(void *)at;
    at += metric->bound_count * sizeof *family->bounds;
    family->labels = (const char **)(void *)at;
    at += metric->label_count * sizeof *family->labels;
    family->order = (uint32_t *)(void *)at;
    at += metric->label_count * sizeof *family->order;
    for (size_t i = 0; i < metric->bound_count; i++) {
        family->bounds[i] = metric->bounds[i];
    }
    for (size_t i = 0; i < metric->label_count; i++) {
        family->labels[i] = store_text(&at, metric->labels[i]);
    }
    family->name = store_text(&at, metric->name);
    family->help = store_text(&at, metric->help);
    sort_labels(family);
}

static void *
use_block(struct blocks *blocks, enum block which)
{
    void *memory = blocks->memory[which];

    blocks->memory[which] = NULL;
    return memory;
}

/* False: such a block is wanted first. */
static bool
has_block(struct blocks *blocks, enum block which, size_t bytes)
{
    blocks->wanted = bytes;
    return blocks->memory[which] != NULL && blocks->bytes[which] == bytes;
}

/* Segments for `count` words; false: one is wanted first. */
static bool
extend_locked(struct trp_words *words, uint32_t from, uint32_t count,
    struct blocks *blocks, enum block which)
{
    uint64_t end = (uint64_t)from + count;

    if (end > WORDS_MOST) {
        blocks->wanted = SIZE_MAX; /* so much memory there is not */
        return false;
    }
    for (uint32_t i = segment_of(from); i <= segment_of((uint32_t)end - 1);
         i++) {
        /* relaxed: under the lock. */
        if (trp_load_relaxed(&words->segment[i]) == NULL) {
            if (!has_block(blocks, which, bytes_of_segment(i))) {
                return false;
            }
            put_segment(words, i, use_block(blocks, which));
        }
    }
    return true;
}

/* Complete: it becomes visible here, and the family with it (R2). */
static void
link_locked(struct trp_metrics *metrics, struct trp_family *family,
    struct trp_series *series)
{
    struct trp_series **bucket =
        &metrics->bucket[series->hash % TRP_SERIES_BUCKETS];

    series->same_bucket = *bucket;
    *bucket = series;
    trp_store_release(word_at(&metrics->series, series->index),
        (uint64_t)(uintptr_t)series); /* pairs: metrics.next */
    trp_store_release(
        family->last != NULL ? &family->last->next : &family->first,
        series); /* pairs: metrics.next */
    family->last = series;
    if (family->series_count++ == 0) {
        trp_store_release(
            metrics->last != NULL ? &metrics->last->next : &metrics->first,
            family); /* pairs: metrics.next */
        metrics->last = family;
    }
}

static struct trp_series *
make_locked(struct trp_metrics *metrics, struct trp_family *family,
    const struct request *request, struct blocks *blocks)
{
    const struct trp_metric *metric = request->metric;
    struct trp_series *series = use_block(blocks, SERIES);
    char *at = series->values;

    if (family == NULL) {
        family = use_block(blocks, FAMILY);
        fill_family(family, blocks->bytes[FAMILY], metric);
    }
    series->family = family;
    series->hash = request->hash;
    series->bytes = blocks->bytes[SERIES];
    series->index = ++metrics->series_count;
    series->word = metrics->word_count;
    metrics->word_count += words_of(family->kind, family->bound_count);
    for (size_t i = 0; i < metric->label_count; i++) {
        (void)store_text(&at, request->values[i]);
    }
    link_locked(metrics, family, series);
    return series;
}

/* From here on it is the series of all that are too many. */
static void
overflow(struct request *request)
{
    for (size_t i = 0; i < request->metric->label_count; i++) {
        request->overflow[i] = TRP_OVERFLOW;
    }
    request->values = request->overflow;
    request->is_overflow = true;
    request->hash = hash_values(request);
}

/* Everything that it takes; else what is missing first. */
static enum block
equip_locked(struct trp_metrics *metrics, const struct trp_family *family,
    const struct request *request, struct blocks *blocks)
{
    const struct trp_metric *metric = request->metric;
    uint32_t words = family != NULL
                         ? words_of(family->kind, family->bound_count)
                         : words_of(metric->kind, metric->bound_count);
    uint32_t place = metrics->series_count + 1;

    if (family == NULL && !has_block(blocks, FAMILY, bytes_of_family(metric))) {
        return FAMILY;
    }
    if (!has_block(blocks, SERIES, bytes_of_series(request))) {
        return SERIES;
    }
    if (!extend_locked(
            &metrics->shared, metrics->word_count, words, blocks, WORDS)) {
        return WORDS;
    }
    return extend_locked(&metrics->series, place, 1, blocks, PLACES) ? COMPLETE
                                                                     : PLACES;
}

/* One step: COMPLETE with the series, REFUSED with why, or what is missing. */
static enum block
step_locked(struct trp_metrics *metrics, struct request *request,
    struct blocks *blocks, struct trp_series **series, troupe_status *status)
{
    enum block next = COMPLETE;
    struct trp_family *family =
        find_family_locked(metrics, request->metric, &next);

    if (next == REFUSED) {
        *status = TROUPE_E_EXISTS;
        return REFUSED;
    }
    if (family != NULL) {
        if (!has_labels(family, request->metric)) {
            *status = TROUPE_E_INVALID;
            return REFUSED;
        }
        *series = find_series_locked(metrics, family, request);
        if (*series == NULL && !request->is_overflow &&
            family->series_count >= family->max_series) {
            overflow(request);
            *series = find_series_locked(metrics, family, request);
        }
    }
    if (*series == NULL) {
        next = equip_locked(metrics, family, request, blocks);
        if (next != COMPLETE) {
            return next;
        }
        *series = make_locked(metrics, family, request, blocks);
    }
    if (request->is_overflow && !(*series)->family->is_told) {
        request->is_news = (*series)->family->is_told = true;
    }
    return COMPLETE;
}

/* In place of one of another size, if there is one. */
static bool
get_block(struct trp_heap *heap, struct blocks *blocks, enum block which)
{
    trp_heap_free(heap, blocks->memory[which], blocks->bytes[which]);
    blocks->bytes[which] = blocks->wanted;
    blocks->memory[which] = trp_heap_alloc(heap, blocks->wanted);
    return blocks->memory[which] != NULL;
}

static void
tell_of_overflow(struct trp_metrics *metrics, const struct trp_family *family)
{
    trp_system_log(trp_system_of(metrics->core), TRP_LOG_USER, TROUPE_LOG_WARN,
        "metric %s has %u series: what is new is counted as \"" TRP_OVERFLOW
        "\"",
        family->name, (unsigned)family->max_series);
}

static troupe_status
refuse_family(const struct trp_metric *metric, troupe_status status)
{
    return trp_refuse(status, series_call,
        status == TROUPE_E_EXISTS ? "name" : "labels",
        status == TROUPE_E_EXISTS
            ? "is a metric of another kind, or a sample of one"
            : "must be those of the first use",
        "%.20s", metric->name);
}

troupe_status
trp_metrics_find(struct trp_metrics *metrics, const struct trp_metric *metric,
    const char *const *values, struct trp_series **result)
{
    struct trp_heap *heap = &metrics->core->heap;
    struct request request = {.metric = metric, .values = values};
    struct blocks blocks = {{NULL}, {0}, 0};
    struct trp_series *series = NULL;
    troupe_status status = TROUPE_OK;
    enum block next;

    request.hash = hash_values(&request);
    do {
        trp_lock_acquire(&metrics->lock);
        next = step_locked(metrics, &request, &blocks, &series, &status);
        trp_lock_release(&metrics->lock);
        if (next < BLOCKS && !get_block(heap, &blocks, next)) {
            status = TROUPE_E_NOMEM;
        }
    } while (next < BLOCKS && status == TROUPE_OK);
    for (size_t i = 0; i < BLOCKS; i++) {
        trp_heap_free(heap, blocks.memory[i], blocks.bytes[i]);
    }
    if (next == REFUSED) {
        return refuse_family(metric, status);
    }
    if (status == TROUPE_OK) {
        if (request.is_news) {
            tell_of_overflow(metrics, series->family);
        }
        *result = series;
    }
    return status;
}

bool
trp_metrics_reserve(struct trp_metrics *metrics, uint32_t count, uint32_t *word)
{
    struct blocks blocks = {{NULL}, {0}, 0};
    bool has_memory = true, is_done;

    do {
        trp_lock_acquire(&metrics->lock);
        is_done = extend_locked(
            &metrics->shared, metrics->word_count, count, &blocks, WORDS);
        if (is_done) {
            *word = metrics->word_count;
            metrics->word_count += count;
        }
        trp_lock_release(&metrics->lock);
        if (!is_done) {
            has_memory = get_block(&metrics->core->heap, &blocks, WORDS);
        }
    } while (!is_done && has_memory);
    trp_heap_free(
        &metrics->core->heap, blocks.memory[WORDS], blocks.bytes[WORDS]);
    return is_done;
}

/* --- life ----------------------------------------------------------------- */

bool
trp_metrics_init(struct trp_metrics *metrics, struct trp_core *core,
    uint32_t shards, uint32_t key)
{
    metrics->core = core;
    metrics->key = key;
    metrics->shards =
        trp_heap_alloc(&core->heap, shards * sizeof *metrics->shards);
    if (metrics->shards == NULL) {
        return false;
    }
    metrics->shard_count = shards;
    return true;
}

static void
free_family(struct trp_heap *heap, struct trp_family *family)
{
    /* relaxed: no other thread is left. */
    struct trp_series *series = trp_load_relaxed(&family->first);

    while (series != NULL) {
        struct trp_series *next =
            trp_load_relaxed(&series->next); /* relaxed: same */

        trp_heap_free(heap, series, series->bytes);
        series = next;
    }
    trp_heap_free(heap, family, family->bytes);
}

void
trp_metrics_fini(struct trp_metrics *metrics)
{
    struct trp_family *family = first_family(metrics);
    struct trp_heap *heap;

    if (metrics->core == NULL) {
        return;
    }
    heap = &metrics->core->heap;
    while (family != NULL) {
        struct trp_family *next = next_family(family);

        free_family(heap, family);
        family = next;
    }
    for (uint32_t i = 0; i < metrics->shard_count; i++) {
        free_words(metrics, &metrics->shards[i]);
    }
    free_words(metrics, &metrics->shared);
    free_words(metrics, &metrics->series);
    trp_heap_free(
        heap, metrics->shards, metrics->shard_count * sizeof *metrics->shards);
}

/* --- writing -------------------------------------------------------------- */

static void
expose_series(struct trp_metrics *metrics, const struct trp_series *series,
    struct trp_exposition *out)
{
    const struct trp_family *family = series->family;
    struct trp_label labels[LABELS_MOST];
    const char *values[LABELS_MOST];
    const char *at = series->values;
    uint64_t counts[BOUNDS_MOST + 1];

    for (uint32_t i = 0; i < family->label_count; i++) {
        values[i] = at;
        at += strlen(at) + 1;
    }
    for (uint32_t i = 0; i < family->label_count; i++) {
        labels[i].name = family->labels[family->order[i]];
        labels[i].value = values[family->order[i]];
    }
    if (family->kind != TROUPE_METRIC_HISTOGRAM) {
        trp_exposition_value(out, labels, family->label_count,
            sum_doubles(metrics, series->word));
        return;
    }
    for (uint32_t i = 0; i <= family->bound_count; i++) {
        counts[i] = trp_metrics_sum(metrics, series->word + i);
    }
    trp_exposition_histogram(out, labels, family->label_count,
        &(struct trp_histogram){family->bounds, family->bound_count, counts,
            sum_doubles(metrics, series->word + family->bound_count + 1)});
}

void
trp_metrics_expose(struct trp_metrics *metrics, struct trp_exposition *out)
{
    for (struct trp_family *family = first_family(metrics);
         family != NULL && !out->is_over; family = next_family(family)) {
        struct trp_series *series =
            trp_load_acquire(&family->first); /* pairs: metrics.next */

        trp_exposition_family(out, family->name, family->help, family->kind);
        while (series != NULL && !out->is_over) {
            expose_series(metrics, series, out);
            series = trp_load_acquire(&series->next); /* pairs: metrics.next */
        }
    }
}

/* --- the public calls: series --------------------------------------------- */

static const double default_bounds[] = {
    .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10};

/* A letter, '_' or, in a metric's name, ':'; after the first one also digits.
 */
static bool
is_name(const char *name, bool may_have_colon)
{
    for (const char *at = name; *at != '\0'; at++) {
        bool is_letter = (*at >= 'a' && *at <= 'z') ||
                         (*at >= 'A' && *at <= 'Z') || *at == '_';
        bool is_digit = *at >= '0' && *at <= '9' && at != name;

        if (!is_letter && !is_digit && !(may_have_colon && *at == ':')) {
            return false;
        }
    }
    return name[0] != '\0';
}

static troupe_status
check_name(const troupe_metric_options *options)
{
    if (options->name == NULL || !is_name(options->name, true)) {
        return trp_refuse(TROUPE_E_INVALID, series_call, "name",
            "must be [a-zA-Z_:][a-zA-Z0-9_:]*", "%.20s",
            options->name != NULL ? options->name : "NULL");
    }
    if ((uint32_t)options->kind > TROUPE_METRIC_HISTOGRAM) {
        return trp_refuse(TROUPE_E_INVALID, series_call, "kind",
            "must be TROUPE_METRIC_*", "%d", (int)options->kind);
    }
    if (trp_stock_has_name(options->name, options->kind)) {
        return trp_refuse(TROUPE_E_EXISTS, series_call, "name",
            "is a metric of the library's own", "%.20s", options->name);
    }
    return TROUPE_OK;
}

static troupe_status
refuse_label(const char *rule, const char *label)
{
    return trp_refuse(
        TROUPE_E_INVALID, series_call, "labels", rule, "%.20s", label);
}

static troupe_status
check_label(const troupe_metric_options *options, size_t at)
{
    const char *label = options->labels[at];

    if (!is_name(label, false)) {
        return refuse_label("must be [a-zA-Z_][a-zA-Z0-9_]*", label);
    }
    if (strncmp(label, "__", 2) == 0) {
        return refuse_label("must not begin with two underscores", label);
    }
    if (options->kind == TROUPE_METRIC_HISTOGRAM && strcmp(label, "le") == 0) {
        return refuse_label("must not be that of the buckets", label);
    }
    for (size_t i = 0; i < at; i++) {
        if (strcmp(label, options->labels[i]) == 0) {
            return refuse_label("must differ from each other", label);
        }
    }
    return TROUPE_OK;
}

static troupe_status
check_labels(const troupe_metric_options *options, const char *const *values,
    struct trp_metric *metric)
{
    size_t count = 0, given = 0;

    while (options->labels != NULL && options->labels[count] != NULL) {
        troupe_status status =
            count < LABELS_MOST
                ? check_label(options, count)
                : refuse_label("must be at most 32", options->labels[count]);

        if (status != TROUPE_OK) {
            return status;
        }
        count++;
    }
    while (given <= count && values != NULL && values[given] != NULL) {
        given++;
    }
    if (given != count) {
        return trp_refuse(TROUPE_E_INVALID, series_call, "values",
            "must be one per label, and NULL", "%zu labels, %s values", count,
            given < count ? "fewer" : "more");
    }
    metric->labels = options->labels;
    metric->label_count = count;
    return TROUPE_OK;
}

static troupe_status
check_bounds(const troupe_metric_options *options, struct trp_metric *metric)
{
    bool is_histogram = options->kind == TROUPE_METRIC_HISTOGRAM;

    if ((options->bounds != NULL) != (options->bound_count != 0) ||
        (!is_histogram && options->bound_count != 0) ||
        options->bound_count > BOUNDS_MOST) {
        return trp_refuse(TROUPE_E_INVALID, series_call, "bound_count",
            "must be that of a histogram's bounds, at most 200", "%zu",
            options->bound_count);
    }
    for (size_t i = 0; i < options->bound_count; i++) {
        if (!isfinite(options->bounds[i]) ||
            (i != 0 && options->bounds[i] <= options->bounds[i - 1])) {
            return trp_refuse(TROUPE_E_INVALID, series_call, "bounds",
                "must be finite and rise", "%g", options->bounds[i]);
        }
    }
    metric->bounds = options->bounds;
    metric->bound_count = options->bound_count;
    if (is_histogram && options->bound_count == 0) {
        metric->bounds = default_bounds;
        metric->bound_count = sizeof default_bounds / sizeof *default_bounds;
    }
    return TROUPE_OK;
}

static troupe_status
check_metric(const troupe_metric_options *options, const char *const *values,
    struct trp_metric *metric)
{
    troupe_status status = check_name(options);

    metric->name = options->name;
    metric->help = options->help != NULL ? options->help : "";
    metric->kind = options->kind;
    metric->max_series =
        options->max_series != 0 ? options->max_series : TRP_SERIES_DEFAULT;
    if (status == TROUPE_OK) {
        status = check_labels(options, values, metric);
    }
    return status == TROUPE_OK ? check_bounds(options, metric) : status;
}

troupe_status
troupe_metric_series(troupe_system *system, const troupe_metric_options *given,
    const char *const *values, troupe_series *result)
{
    troupe_status status = trp_system_check(system, series_call);
    troupe_metric_options options = {0};
    struct trp_series *series = NULL;
    struct trp_metric metric;

    if (status == TROUPE_OK && result == NULL) {
        status = trp_refuse(TROUPE_E_INVALID, series_call, "series",
            "must not be NULL", "NULL");
    }
    if (status == TROUPE_OK) {
        status = trp_options_copy(&options, sizeof options, given, series_call);
    }
    if (status == TROUPE_OK) {
        status = check_metric(&options, values, &metric);
    }
    if (status == TROUPE_OK) {
        status = trp_metrics_find(&system->metrics, &metric, values, &series);
    }
    if (status == TROUPE_OK) {
        result->id = (uint64_t)system->metrics.key << 32 | series->index;
    }
    return status;
}

/* --- the public calls: numbers -------------------------------------------- */

/* NULL: of nobody, of another system, or of a child of fork(). */
static const struct trp_series *
find(const troupe_system *system, troupe_series handle)
{
    TRP_ATOMIC(uint64_t) * place;

    if (TRP_UNLIKELY(system == NULL || !trp_core_is_alive(&system->core) ||
                     (uint32_t)(handle.id >> 32) != system->metrics.key ||
                     (uint32_t)handle.id >= WORDS_MOST)) {
        return NULL;
    }
    place = word_at(&system->metrics.series, (uint32_t)handle.id);
    return place != NULL
               ? (const struct trp_series *)(uintptr_t)trp_load_acquire(
                     place) /* pairs: metrics.next
                             */
               : NULL;
}

/* A gauge: one word for all, so that what was set last is what it is. */
static TRP_ATOMIC(uint64_t) *
    gauge_word(troupe_system *system, const struct trp_series *series)
{
    return word_at(&system->metrics.shared, series->word);
}

void
troupe_metric_add(troupe_system *system, troupe_series handle, double amount)
{
    const struct trp_series *series = find(system, handle);

    if (series == NULL || !isfinite(amount)) {
        return;
    }
    if (series->family->kind == TROUPE_METRIC_COUNTER && amount >= 0) {
        if (trp_metrics_are_on(&system->metrics)) {
            trp_metrics_add(&system->metrics, series->word, amount);
        }
    } else if (series->family->kind == TROUPE_METRIC_GAUGE) {
        add_shared(gauge_word(system, series), amount);
    }
}

void
troupe_metric_set(troupe_system *system, troupe_series handle, double value)
{
    const struct trp_series *series = find(system, handle);

    if (series != NULL && series->family->kind == TROUPE_METRIC_GAUGE &&
        isfinite(value)) {
        /* relaxed: a number for people. */
        trp_store_relaxed(
            gauge_word(system, series), trp_bits_of_double(value));
    }
}

void
troupe_metric_observe(troupe_system *system, troupe_series handle, double value)
{
    const struct trp_series *series = find(system, handle);
    const struct trp_family *family;
    uint32_t bucket = 0;

    if (series == NULL || !isfinite(value) ||
        series->family->kind != TROUPE_METRIC_HISTOGRAM ||
        !trp_metrics_are_on(&system->metrics)) {
        return;
    }
    family = series->family;
    while (bucket < family->bound_count && value > family->bounds[bucket]) {
        bucket++;
    }
    trp_metrics_count(&system->metrics, series->word + bucket, 1);
    trp_metrics_add(
        &system->metrics, series->word + family->bound_count + 1, value);
}
