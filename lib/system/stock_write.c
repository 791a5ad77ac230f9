/* SPDX-License-Identifier: MIT */
#include <troupe/version.h>

#include "actor/meter.h"
#include "base/bits.h"
#include "system/counters.h"
#include "system/stock_survey.h"
#include "system/system.h"

#include <stdio.h>
#include <string.h>

/*
 * The stock metrics as text: a row per family, with the function that writes
 * its series. What comes with another part of the library is a function and
 * its rows.
 */

#define EXTRA(core, member)                                                    \
    trp_counters_extra(core, offsetof(struct trp_books, member))
#define WALK_MOST (1u << 20)
#define WALKS_MOST 4

/* What one scrape is made from. */
struct view {
    troupe_system *system;
    struct trp_exposition *out;
    troupe_counters counters;
    const struct trp_survey *survey;
};

struct row {
    const char *name;
    const char *help;
    troupe_metric_kind kind;
    void (*write)(const struct view *view, const struct row *row);
    size_t offset; /* for `write`: what it reads, or which one it is */
};

/* --- one number ----------------------------------------------------------- */

static void
write_one(const struct view *view, double value)
{
    trp_exposition_value(view->out, NULL, 0, value);
}

static void
write_labelled(
    const struct view *view, const char *name, const char *label, double value)
{
    const struct trp_label labels[] = {{name, label}};

    trp_exposition_value(view->out, labels, 1, value);
}

static void
write_counter(const struct view *view, const struct row *row)
{
    const char *counters = (const char *)&view->counters;

    write_one(view,
        (double)*(const uint64_t *)(const void *)(counters + row->offset));
}

/* Who never got through its start() was not created. */
static void
write_created(const struct view *view, const struct row *row)
{
    uint64_t unborn = EXTRA(&view->system->core, unborn);

    (void)row;
    write_one(view, view->counters.started > unborn
                        ? (double)(view->counters.started - unborn)
                        : 0);
}

/* Shown to somebody, whatever came of it. */
static void
write_delivered(const struct view *view, const struct row *row)
{
    const struct trp_core *core = &view->system->core;

    (void)row;
    write_one(view, (double)(view->counters.handled + EXTRA(core, unhandled) +
                             EXTRA(core, stashed)));
}

static void
write_info(const struct view *view, const struct row *row)
{
    const struct trp_label labels[] = {
        {"system", view->system->name}, {"version", troupe_version_text()}};

    (void)row;
    trp_exposition_value(view->out, labels, 2, 1);
}

/* --- what was measured ---------------------------------------------------- */

static void
write_tally(const struct view *view, const struct row *row)
{
    const struct trp_core *core = &view->system->core;
    const struct trp_tally_shape *shape = &trp_tally_shapes[row->offset];
    const struct trp_label labels[] = {{"dispatcher", "default"}};
    uint64_t counts[TRP_TALLY_BUCKETS] = {0};
    double bounds[TRP_TALLY_BUCKETS], sum = 0;

    for (uint32_t i = 0; i < shape->count; i++) {
        bounds[i] = (double)shape->bounds[i] / shape->per_unit;
    }
    for (uint32_t i = 0; i < core->sched.allocated; i++) {
        const struct trp_tally *tally = &core->locals[i].tallies[row->offset];

        /* relaxed, both: statistics. */
        sum += trp_bits_to_double(trp_load_relaxed(&tally->sum));
        for (uint32_t k = 0; k <= shape->count; k++) {
            counts[k] += trp_load_relaxed(&tally->bucket[k]); /* relaxed */
        }
    }
    trp_exposition_histogram(view->out, labels,
        row->offset == TRP_TALLY_DELAY ? 1 : 0,
        &(struct trp_histogram){bounds, shape->count, counts, sum});
}

/* --- letters and memory --------------------------------------------------- */

static void
write_reasons(const struct view *view, const struct row *row)
{
    static const troupe_dead_reason reasons[] = {TROUPE_DEAD_STOPPED,
        TROUPE_DEAD_REFUSED, TROUPE_DEAD_DROPPED, TROUPE_DEAD_UNHANDLED,
        TROUPE_DEAD_NO_ROUTE, TROUPE_DEAD_STASH, TROUPE_DEAD_LATE,
        TROUPE_DEAD_EXPIRED, TROUPE_DEAD_NO_SENDER};

    (void)row;
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
        write_labelled(view, "reason", troupe_dead_reason_name(reasons[i]),
            (double)EXTRA(&view->system->core, letters[reasons[i]]));
    }
}

static void
write_memory(const struct view *view, const struct row *row)
{
    const struct trp_core *core = &view->system->core;
    const struct {
        const char *name;
        uint64_t bytes;
    } pools[] = {
        {"actors", trp_pool_live_bytes(&core->cells)},
        {"asks", trp_pool_live_bytes(&core->ops) +
                     trp_pool_live_bytes(&core->askers)},
        {"delayed", trp_pool_live_bytes(&core->delayed)},
        /* relaxed: statistic. */
        {"heap", trp_load_relaxed(&core->heap.live_bytes)},
        {"mailboxes", trp_pool_live_bytes(&core->segments) +
                          trp_pool_live_bytes(&core->rules)},
        {"messages", trp_pool_live_bytes(&core->messages)},
        {"routers", trp_pool_live_bytes(&core->routes) +
                        trp_pool_live_bytes(&core->tables) +
                        trp_pool_live_bytes(&core->depths)},
    };

    (void)row;
    for (size_t i = 0; i < sizeof pools / sizeof *pools; i++) {
        write_labelled(view, "part", pools[i].name, (double)pools[i].bytes);
    }
}

/* --- classes -------------------------------------------------------------- */

/* The one of those that are too many only if it has something to say. */
static bool
is_shown(const struct trp_class *class, double value)
{
    return class->index != 0 || value != 0;
}

static void
write_class_counts(const struct view *view, const struct row *row)
{
    for (const struct trp_class *class = &view->system->stock.other;
         class != NULL; class = trp_stock_next_class(class)) {
        double value = (double)trp_metrics_sum(
            &view->system->metrics, class->word + (uint32_t)row->offset);

        if (is_shown(class, value)) {
            write_labelled(view, "class", class->name, value);
        }
    }
}

static double
survey_of(const struct view *view, const struct trp_class *class, size_t offset)
{
    const struct trp_survey_class *sums;

    if (class->index >= view->survey->class_count) {
        return 0; /* met since */
    }
    sums = &view->survey->classes[class->index];
    switch (offset) {
    case offsetof(struct trp_survey_class, actors):
        return (double)sums->actors;
    case offsetof(struct trp_survey_class, queued):
        return (double)sums->queued;
    default:
        return sums->deepest;
    }
}

static void
write_class_survey(const struct view *view, const struct row *row)
{
    for (const struct trp_class *class = &view->system->stock.other;
         class != NULL; class = trp_stock_next_class(class)) {
        double value = survey_of(view, class, row->offset);

        if (is_shown(class, value)) {
            write_labelled(view, "class", class->name, value);
        }
    }
}

static void
write_drops(const struct view *view, const struct row *row)
{
    static const struct {
        const char *name;
        enum trp_class_count count;
    } reasons[] = {{"drop-head", TRP_CLASS_DROPPED_HEAD},
        {"drop-new", TRP_CLASS_DROPPED_NEW},
        {"throttle", TRP_CLASS_DROPPED_THROTTLE}};

    (void)row;
    for (const struct trp_class *class = &view->system->stock.other;
         class != NULL; class = trp_stock_next_class(class)) {
        for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
            const struct trp_label labels[] = {
                {"class", class->name}, {"reason", reasons[i].name}};
            uint64_t count = trp_metrics_sum(
                &view->system->metrics, class->word + reasons[i].count);

            if (count != 0) {
                trp_exposition_value(view->out, labels, 2, (double)count);
            }
        }
    }
}

static void
write_deep(const struct view *view, const struct row *row)
{
    const struct trp_label rest[] = {
        {"class", TRP_OVERFLOW}, {"path", TRP_OVERFLOW}};

    (void)row;
    for (size_t i = 0; i < view->survey->deep_count; i++) {
        const struct trp_survey_deep *deep = &view->survey->deep[i];
        const struct trp_label labels[] = {
            {"class", deep->class->name}, {"path", deep->path}};

        if (deep->path != NULL) {
            trp_exposition_value(view->out, labels, 2, deep->depth);
        }
    }
    if (view->survey->deep_rest != 0) {
        trp_exposition_value(
            view->out, rest, 2, (double)view->survey->deep_rest);
    }
}

/* --- workers -------------------------------------------------------------- */

static void
write_workers(const struct view *view, const struct row *row)
{
    const struct trp_sched *sched = &view->system->core.sched;
    /* pairs: idle.state */
    uint64_t state = trp_load_acquire(&sched->idle.state);
    uint32_t parked = trp_idle_parked(state);
    uint32_t searching = trp_idle_searching(state);
    uint32_t idle = parked + searching;

    (void)row;
    write_labelled(view, "state", "busy",
        sched->driven || idle > sched->count ? 0 : sched->count - idle);
    write_labelled(view, "state", "parked", parked);
    write_labelled(view, "state", "searching", searching);
}

static uint32_t
queue_of(struct trp_worker *worker)
{
    return trp_deque_length(&worker->deque) + trp_deque_length(&worker->yield) +
           /* relaxed: statistic. */
           (trp_load_relaxed(&worker->slot) != NULL ? 1 : 0);
}

/* Of one worker; `offset` says which of its counters. */
static double
number_of(struct trp_worker *worker, size_t offset)
{
    const TRP_ATOMIC(uint64_t) *counter = (const TRP_ATOMIC(
        uint64_t) *)(const void *)((const char *)worker + offset);

    switch (offset) {
    case offsetof(struct trp_worker, deque):
        return queue_of(worker);
    case offsetof(struct trp_worker, current):
        /* relaxed: statistic. */
        return trp_load_relaxed(&worker->current) != NULL;
    default:
        return (double)trp_load_relaxed(counter); /* relaxed: statistic */
    }
}

static void
write_worker(const struct view *view, const struct row *row)
{
    const struct trp_sched *sched = &view->system->core.sched;
    char label[16];

    for (uint32_t i = 0; i < sched->count; i++) {
        snprintf(label, sizeof label, "%u", (unsigned)i);
        write_labelled(
            view, "worker", label, number_of(&sched->workers[i], row->offset));
    }
}

/*
 * The injector is a list without a length, for who appends must not pay for
 * one. Its nodes are never unmapped, so it can be walked while others take
 * it: what was counted is used if the list began in the same place before and
 * after.
 */
static uint32_t
walk_injector(const struct trp_inject *inject)
{
    uint32_t length = 0;

    for (int walk = 0; walk < WALKS_MOST; walk++) {
        /* relaxed: an estimate, and nothing is written. */
        struct trp_node *first = trp_load_relaxed(&inject->newest);
        struct trp_node *node = first;

        for (length = 0; node != NULL && length < WALK_MOST; length++) {
            node = trp_load_relaxed(&node->next); /* relaxed: same */
        }
        if (trp_load_relaxed(&inject->newest) == first) { /* relaxed: same */
            return length;
        }
    }
    return length;
}

static void
write_injector(const struct view *view, const struct row *row)
{
    (void)row;
    write_one(view, walk_injector(&view->system->core.sched.inject));
}

/* --- the list ------------------------------------------------------------- */

#define NAME_COUNTER(name) "troupe_" #name "_total"
#define NAME_GAUGE(name) "troupe_" #name
#define COUNTER_ROW(name, kind, help)                                          \
    {NAME_##kind(name), help, TROUPE_METRIC_##kind, write_counter,             \
        offsetof(troupe_counters, name)},

static const struct row rows[] = {
    {"actor_created_total", "Actors that began to live, after start().",
        TROUPE_METRIC_COUNTER, write_created, 0},
    {"actor_terminated_total", "Actors that have stopped.",
        TROUPE_METRIC_COUNTER, write_counter,
        offsetof(troupe_counters, stopped)},
    {"actor_restarted_total", "Times that an actor got a new state.",
        TROUPE_METRIC_COUNTER, write_counter,
        offsetof(troupe_counters, restarted)},
    {"actor_messages_delivered_total", "Messages shown to behaviours.",
        TROUPE_METRIC_COUNTER, write_delivered, 0},
    {"actor_message_handler_seconds", "Time that behaviours took; sampled.",
        TROUPE_METRIC_HISTOGRAM, write_tally, TRP_TALLY_HANDLER},
    {"actor_mailbox_wait_seconds", "Time that messages waited; sampled.",
        TROUPE_METRIC_HISTOGRAM, write_tally, TRP_TALLY_WAIT},
    {"actor_mailbox_depth", "Messages there when one is handled; sampled.",
        TROUPE_METRIC_HISTOGRAM, write_tally, TRP_TALLY_DEPTH},
    {"actor_dispatcher_queue_delay_seconds",
        "Time that actors waited for a worker; sampled.",
        TROUPE_METRIC_HISTOGRAM, write_tally, TRP_TALLY_DELAY},
    {"actor_mailbox_size", "Messages that wait, of mailboxes from 10000 on.",
        TROUPE_METRIC_GAUGE, write_deep, 0},
    {"actor_mailbox_dropped_total", "Messages that a mailbox has dropped.",
        TROUPE_METRIC_COUNTER, write_drops, 0},
    TROUPE_COUNTER_MAP(COUNTER_ROW){"troupe_dead_letters_total",
        "Dead letters.", TROUPE_METRIC_COUNTER, write_reasons, 0},
    {"troupe_class_started_total", "Actors started.", TROUPE_METRIC_COUNTER,
        write_class_counts, TRP_CLASS_STARTED},
    {"troupe_class_stopped_total", "Actors stopped.", TROUPE_METRIC_COUNTER,
        write_class_counts, TRP_CLASS_STOPPED},
    {"troupe_class_restarted_total", "Times that an actor got a new state.",
        TROUPE_METRIC_COUNTER, write_class_counts, TRP_CLASS_RESTARTED},
    {"troupe_class_actors", "Live actors.", TROUPE_METRIC_GAUGE,
        write_class_survey, offsetof(struct trp_survey_class, actors)},
    {"troupe_class_queued", "Messages in their mailboxes.", TROUPE_METRIC_GAUGE,
        write_class_survey, offsetof(struct trp_survey_class, queued)},
    {"troupe_class_deepest", "Messages in the deepest of them.",
        TROUPE_METRIC_GAUGE, write_class_survey,
        offsetof(struct trp_survey_class, deepest)},
    {"troupe_workers", "Workers by what they do.", TROUPE_METRIC_GAUGE,
        write_workers, 0},
    {"troupe_worker_busy", "1: inside of a turn.", TROUPE_METRIC_GAUGE,
        write_worker, offsetof(struct trp_worker, current)},
    {"troupe_worker_queue", "Actors that wait for this worker.",
        TROUPE_METRIC_GAUGE, write_worker, offsetof(struct trp_worker, deque)},
    {"troupe_worker_turns_total", "Turns.", TROUPE_METRIC_COUNTER, write_worker,
        offsetof(struct trp_worker, turns)},
    {"troupe_worker_injected_total", "Actors taken from foreign threads.",
        TROUPE_METRIC_COUNTER, write_worker,
        offsetof(struct trp_worker, injected)},
    {"troupe_worker_steals_total", "Actors taken from others.",
        TROUPE_METRIC_COUNTER, write_worker,
        offsetof(struct trp_worker, steals)},
    {"troupe_worker_steal_misses_total", "Others found empty.",
        TROUPE_METRIC_COUNTER, write_worker,
        offsetof(struct trp_worker, steal_misses)},
    {"troupe_worker_parks_total", "Times it went to sleep.",
        TROUPE_METRIC_COUNTER, write_worker,
        offsetof(struct trp_worker, parks)},
    {"troupe_worker_wakes_total", "Times it woke another one.",
        TROUPE_METRIC_COUNTER, write_worker,
        offsetof(struct trp_worker, wakes)},
    {"troupe_injector_length", "Actors that foreign threads have handed in.",
        TROUPE_METRIC_GAUGE, write_injector, 0},
    {"troupe_memory_bytes", "Bytes held, by what for.", TROUPE_METRIC_GAUGE,
        write_memory, 0},
    {"troupe_info", "1; what it is.", TROUPE_METRIC_GAUGE, write_info, 0},
};

#define ROWS (sizeof rows / sizeof *rows)

/* Not a row: its series are in the registry. */
static const char letters_name[] = "actor_dead_letters_total";

bool
trp_stock_has_name(const char *name, troupe_metric_kind kind)
{
    bool is_stock =
        strncmp(name, "troupe_", 7) == 0 ||
        trp_metric_names_clash(letters_name, TROUPE_METRIC_COUNTER, name, kind);

    for (size_t i = 0; i < ROWS && !is_stock; i++) {
        is_stock =
            trp_metric_names_clash(rows[i].name, rows[i].kind, name, kind);
    }
    return is_stock;
}

/* --- the calls ------------------------------------------------------------ */

/* The equation of troupe/counters.h, instead of a pass over all cells. */
static uint64_t
queued_of(const troupe_counters *c)
{
    uint64_t gone =
        c->handled + c->dropped + c->dead + c->cancelled + c->refused;

    return c->sent > gone ? c->sent - gone : 0;
}

static troupe_status
write_all(troupe_system *system, struct trp_exposition *out)
{
    struct view view = {.system = system, .out = out};
    struct trp_survey *survey;
    troupe_status status = trp_survey_hold(system, &survey);

    if (status != TROUPE_OK) {
        return status;
    }
    view.survey = survey;
    trp_counters_sum(&system->core, &view.counters);
    view.counters.queued = queued_of(&view.counters);
    for (size_t i = 0; i < ROWS && !out->is_over; i++) {
        trp_exposition_family(out, rows[i].name, rows[i].help, rows[i].kind);
        rows[i].write(&view, &rows[i]);
    }
    trp_survey_give(system, survey);
    trp_metrics_expose(&system->metrics, out);
    return TROUPE_OK;
}

troupe_status
troupe_metrics_write(troupe_system *system, troupe_metrics_format format,
    troupe_write_fn write, void *user)
{
    static const char call[] = "troupe_metrics_write";
    troupe_status status = trp_system_check(system, call);
    struct trp_exposition out;

    if (status == TROUPE_OK && (uint32_t)format > TROUPE_METRICS_JSON) {
        status = trp_refuse(TROUPE_E_INVALID, call, "format",
            "must be TROUPE_METRICS_*", "%d", (int)format);
    }
    if (status == TROUPE_OK && write == NULL) {
        status = trp_refuse(
            TROUPE_E_INVALID, call, "write", "must not be NULL", "NULL");
    }
    if (status != TROUPE_OK) {
        return status;
    }
    trp_exposition_begin(&out, format, write, user);
    if (trp_metrics_are_on(&system->metrics)) {
        status = write_all(system, &out);
    }
    if (status == TROUPE_OK) {
        trp_exposition_end(&out);
    }
    return status;
}
