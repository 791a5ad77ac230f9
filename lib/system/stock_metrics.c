/* SPDX-License-Identifier: MIT */
#include "system/stock_metrics.h"

#include "actor/meter.h"
#include "actor/registry.h"
#include "actor/turn.h"
#include "base/hash.h"
#include "system/stock_survey.h"
#include "system/system.h"

#include <string.h>

/* What is counted for the stock metrics while metrics are on. */

#define TRIES 8u /* slots that a type may be in */
#define PATH_BYTES 512

/* --- classes -------------------------------------------------------------- */

static uint32_t
slot_of(const troupe_actor_type *type, uint32_t attempt)
{
    return (uint32_t)(trp_hash_mix64((uintptr_t)type) + attempt) %
           TRP_CLASS_SLOTS;
}

static struct trp_class *
find_slot(const struct trp_stock *stock, const troupe_actor_type *type)
{
    for (uint32_t i = 0; i < TRIES; i++) {
        uint32_t at = slot_of(type, i);

        if (trp_load_acquire(&stock->slot[at].type) == type) { /* pairs:
                                                                  stock.class */
            /* relaxed: written before the type. */
            return trp_load_relaxed(&stock->slot[at].class);
        }
    }
    return NULL;
}

/* If there is room; else it is found by its name each time. */
static void
remember_locked(struct trp_stock *stock, const troupe_actor_type *type,
    struct trp_class *class)
{
    for (uint32_t i = 0; i < TRIES; i++) {
        uint32_t at = slot_of(type, i);

        /* relaxed, all of them: under the lock, or before the type. */
        if (trp_load_relaxed(&stock->slot[at].type) == NULL ||
            trp_load_relaxed(&stock->slot[at].type) == type) {
            trp_store_relaxed(&stock->slot[at].class, class);
            trp_store_release(
                &stock->slot[at].type, type); /* pairs: stock.class */
            return;
        }
    }
}

static struct trp_class *
find_name_locked(struct trp_stock *stock, const char *name)
{
    struct trp_class *class = &stock->other;

    while (class != NULL && strcmp(class->name, name) != 0) {
        class = trp_stock_next_class(class);
    }
    return class;
}

static struct trp_class *
new_class(troupe_system *system, const char *name)
{
    size_t bytes = sizeof(struct trp_class) + strlen(name) + 1;
    struct trp_class *class = trp_heap_alloc(&system->core.heap, bytes);

    if (class != NULL) {
        class->bytes = bytes;
        class->name = strcpy((char *)(class + 1), name);
        if (!trp_metrics_reserve(
                &system->metrics, TRP_CLASS_COUNTS, &class->word)) {
            trp_heap_free(&system->core.heap, class, bytes);
            return NULL;
        }
    }
    return class;
}

static void
link_class_locked(struct trp_stock *stock, struct trp_class *class)
{
    class->index = stock->class_count++;
    trp_store_release(&stock->last->next, class); /* pairs: stock.class */
    stock->last = class;
}

/*
 * The first time that a type is met. Without memory, or if there are too many,
 * it is one of the others: nothing is lost but its name.
 */
static struct trp_class *
meet_type(troupe_system *system, const troupe_actor_type *type)
{
    struct trp_stock *stock = &system->stock;
    const char *name = type->name != NULL ? type->name : "";
    struct trp_class *spare = NULL, *class = NULL;

    for (int round = 0; round < 2 && class == NULL; round++) {
        if (round == 1) {
            spare = new_class(system, name);
        }
        trp_lock_acquire(&stock->lock);
        class = find_name_locked(stock, name);
        if (class == NULL && stock->class_count > TRP_SERIES_DEFAULT) {
            class = &stock->other;
        }
        if (class == NULL && spare != NULL) {
            class = spare;
            spare = NULL;
            link_class_locked(stock, class);
        }
        if (class != NULL) {
            remember_locked(stock, type, class);
        }
        trp_lock_release(&stock->lock);
    }
    if (spare != NULL) { /* its words stay unused */
        trp_heap_free(&system->core.heap, spare, spare->bytes);
    }
    return class != NULL ? class : &stock->other;
}

struct trp_class *
trp_stock_class(troupe_system *system, const troupe_actor_type *type)
{
    static const troupe_actor_type port = {
        .size = sizeof(troupe_actor_type), .name = "port"};
    struct trp_class *class;

    if (type == NULL) {
        type = &port;
    }
    class = find_slot(&system->stock, type);
    return class != NULL ? class : meet_type(system, type);
}

struct trp_class *
trp_stock_next_class(const struct trp_class *class)
{
    return trp_load_acquire(&class->next); /* pairs: stock.class */
}

/* --- counts --------------------------------------------------------------- */

void
trp_stock_count_life(troupe_system *system, const troupe_actor_type *type,
    enum trp_class_count what)
{
    if (trp_metrics_are_on(&system->metrics)) {
        const struct trp_class *class = trp_stock_class(system, type);

        trp_metrics_count(&system->metrics, class->word + what, 1);
    }
}

void
trp_stock_count_drop(
    struct trp_core *core, troupe_ref recipient, troupe_drop_reason reason)
{
    static const enum trp_class_count counts[] = {
        [TROUPE_DROP_NEW] = TRP_CLASS_DROPPED_NEW,
        [TROUPE_DROP_HEAD] = TRP_CLASS_DROPPED_HEAD,
        [TROUPE_DROP_THROTTLE] = TRP_CLASS_DROPPED_THROTTLE};
    troupe_system *system = trp_system_of(core);
    /* pairs: cell.cold_part */
    const troupe_actor_type *type =
        trp_load_acquire(&core->cold[recipient.index].type);
    /* Who had it dropped was in its mailbox just now; it may have gone. */
    const struct trp_class *class = trp_ref_lives(core, recipient)
                                        ? trp_stock_class(system, type)
                                        : &system->stock.other;

    trp_metrics_count(&system->metrics, class->word + counts[reason], 1);
}

/* --- letters -------------------------------------------------------------- */

static const char *const letter_labels[] = {"outcome", "recipient"};
static const char *const outcomes[] = {"captured", "replayed", "replay-failed"};

static const struct trp_metric letters = {.name = "actor_dead_letters_total",
    .help = "Dead letters that the store has taken, and sent again.",
    .kind = TROUPE_METRIC_COUNTER,
    .max_series = TRP_SERIES_DEFAULT,
    .labels = letter_labels,
    .label_count = 2};

/*
 * Its path in the system. From the first name on that was generated it is "*":
 * labels are bounded by what was written, not by how much ran. Who has gone has
 * no path any more.
 */
static void
label_of(struct trp_core *core, troupe_ref ref, char *text, size_t bytes)
{
    size_t prefix = strlen("troupe://") + strlen(core->name);
    char *generated;

    if (!trp_ref_is_possible(core, ref)) {
        strcpy(text, troupe_ref_is_none(ref) ? "nobody" : "operation");
        return;
    }
    if (trp_registry_path(core, ref, text, bytes) == 0) {
        strcpy(text, "gone");
        return;
    }
    memmove(text, text + prefix, strlen(text + prefix) + 1);
    generated = strstr(text, "/$");
    if (generated != NULL) {
        strcpy(generated, "/*");
    }
}

void
trp_stock_count_letter(troupe_system *system, troupe_ref recipient,
    enum trp_letter_outcome outcome)
{
    struct trp_series *series = system->stock.letters[outcome];
    char path[PATH_BYTES];
    const char *const values[] = {outcomes[outcome], path};

    if (!trp_metrics_are_on(&system->metrics) || series == NULL) {
        return;
    }
    label_of(&system->core, recipient, path, sizeof path);
    /* No memory: it is one of nobody knows whom. */
    (void)trp_metrics_find(&system->metrics, &letters, values, &series);
    trp_metrics_add(&system->metrics, series->word, 1);
}

/* One series of each outcome is there at once, so that none is ever lost. */
static bool
make_letters(troupe_system *system)
{
    for (size_t i = 0; i < TRP_LETTER_OUTCOMES; i++) {
        const char *const values[] = {outcomes[i], "unknown"};

        if (trp_metrics_find(&system->metrics, &letters, values,
                &system->stock.letters[i]) != TROUPE_OK) {
            return false;
        }
    }
    return true;
}

/* --- the switch ----------------------------------------------------------- */

/* What measuring needs. Made once; false: no memory. */
static bool
make_probes(troupe_system *system)
{
    struct trp_core *core = &system->core;
    struct trp_probe *spare, *probes;

    /* relaxed: a look. */
    if (trp_load_relaxed(&core->probes) != NULL) {
        return true;
    }
    spare = trp_heap_alloc(&core->heap, TRP_PROBES_BYTES);
    if (spare == NULL) {
        return false;
    }
    trp_lock_acquire(&system->metrics.lock);
    /* relaxed: under the lock. */
    probes = trp_load_relaxed(&core->probes);
    if (probes == NULL) {
        trp_store_release(&core->probes, spare); /* pairs: meter.probe */
        spare = NULL;
    }
    trp_lock_release(&system->metrics.lock);
    trp_heap_free(&core->heap, spare, TRP_PROBES_BYTES);
    return true;
}

/* Probes are there if it is to be on. */
static void
measure(struct trp_core *core, bool on)
{
    /* relaxed, all of them: switches. */
    trp_store_relaxed(&core->sched.run, on ? trp_turn_metered : trp_turn);
    for (uint32_t i = 0; i < core->sched.allocated; i++) {
        trp_store_relaxed(&core->locals[i].meter.sends_left, on);
    }
}

bool
trp_stock_switch(troupe_system *system, bool on)
{
    struct trp_core *core = &system->core;
    bool has_memory = !on || make_probes(system);

    trp_lock_acquire(&system->metrics.lock);
    if (trp_metrics_are_on(&system->metrics) != on) {
        /* relaxed, all of them: switches, and a hint for who starts actors. */
        trp_store_relaxed(&system->metrics.on, on);
        trp_store_relaxed(&core->metered, on);
        trp_add_relaxed(&core->life_listeners, on ? 1 : UINT32_MAX);
        if (has_memory) {
            measure(core, on);
        }
    }
    trp_lock_release(&system->metrics.lock);
    return has_memory;
}

void
troupe_metrics_enable(troupe_system *system, bool on)
{
    if (trp_system_check(system, "troupe_metrics_enable") == TROUPE_OK &&
        !trp_stock_switch(system, on)) {
        trp_system_log(system, TRP_LOG_USER, TROUPE_LOG_WARN,
            "no memory to measure how long messages wait: the other metrics "
            "are on");
    }
}

/* --- life ----------------------------------------------------------------- */

bool
trp_stock_init(troupe_system *system)
{
    struct trp_stock *stock = &system->stock;

    stock->other.name = TRP_OVERFLOW;
    stock->last = &stock->other;
    stock->class_count = 1;
    return trp_metrics_reserve(
               &system->metrics, TRP_CLASS_COUNTS, &stock->other.word) &&
           (system->tunables.value[TRP_TROUPE_DEAD_LETTERS] ==
                   TRP_DEAD_LETTERS_OFF ||
               make_letters(system));
}

void
trp_stock_fini(troupe_system *system)
{
    struct trp_heap *heap = &system->core.heap;
    struct trp_class *class = trp_stock_next_class(&system->stock.other);

    /* relaxed: no other thread is left. */
    trp_heap_free(
        heap, trp_load_relaxed(&system->core.probes), TRP_PROBES_BYTES);
    trp_survey_free(system, system->stock.survey);
    while (class != NULL) {
        struct trp_class *next = trp_stock_next_class(class);

        trp_heap_free(heap, class, class->bytes);
        class = next;
    }
}
