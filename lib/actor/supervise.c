/* SPDX-License-Identifier: MIT */
#include "actor/supervise.h"

#include "actor/mailbox.h"
#include "base/backoff.h"
#include "base/options.h"

#include <string.h>

/* Of what is never forgotten so many are told to decide() and the back-off. */
#define RESTARTS_TOLD UINT32_C(1024)

struct trp_supervision {
    TRP_ATOMIC(uint32_t) refs;
    size_t bytes;
    troupe_supervision options; /* its pointers point into this block */
    troupe_backoff backoff;
    troupe_rule rules[];
};

/* --- options -------------------------------------------------------------- */

static troupe_status
check_rules(const troupe_supervision *options, const char *call)
{
    if ((options->rules == NULL) != (options->rule_count == 0)) {
        return trp_refuse(TROUPE_E_INVALID, call, "supervision.rules",
            "and rule_count must be given together", "%zu",
            options->rule_count);
    }
    if (options->rule_count > SIZE_MAX / 4 / sizeof *options->rules) {
        return trp_refuse(TROUPE_E_INVALID, call, "supervision.rule_count",
            "is too large", "%zu", options->rule_count);
    }
    for (size_t i = 0; i < options->rule_count; i++) {
        const troupe_rule *rule = &options->rules[i];

        if (rule->code_from > rule->code_to) {
            return trp_refuse(TROUPE_E_INVALID, call, "supervision.rules",
                "must have code_from <= code_to", "rule %zu: %d to %d", i,
                (int)rule->code_from, (int)rule->code_to);
        }
        if ((uint32_t)rule->directive > TROUPE_DIRECTIVE_ESCALATE) {
            return trp_refuse(TROUPE_E_INVALID, call, "supervision.rules",
                "must have a TROUPE_DIRECTIVE_*", "rule %zu: %u", i,
                (unsigned)rule->directive);
        }
    }
    return TROUPE_OK;
}

troupe_status
trp_supervision_check(troupe_supervision *copy, troupe_backoff *backoff,
    const troupe_supervision *given, const char *call)
{
    troupe_status status = trp_options_copy(copy, sizeof *copy, given, call);

    if (status != TROUPE_OK) {
        return status;
    }
    if ((uint32_t)copy->scope > TROUPE_SCOPE_ALL_FOR_ONE) {
        return trp_refuse(TROUPE_E_INVALID, call, "supervision.scope",
            "must be TROUPE_SCOPE_*", "%u", (unsigned)copy->scope);
    }
    if ((uint32_t)copy->otherwise > TROUPE_DIRECTIVE_ESCALATE) {
        return trp_refuse(TROUPE_E_INVALID, call, "supervision.otherwise",
            "must be TROUPE_DIRECTIVE_*", "%u", (unsigned)copy->otherwise);
    }
    if ((uint32_t)copy->give_up > TROUPE_GIVE_UP_ESCALATE) {
        return trp_refuse(TROUPE_E_INVALID, call, "supervision.give_up",
            "must be TROUPE_GIVE_UP_*", "%u", (unsigned)copy->give_up);
    }
    status = check_rules(copy, call);
    if (status == TROUPE_OK && copy->backoff != NULL) {
        status = trp_backoff_copy(backoff, copy->backoff, call);
        copy->backoff = backoff;
    }
    if (copy->window_ns == 0) {
        copy->window_ns = UINT64_C(60) * 1000000000;
    }
    if (copy->max_restarts == 0) {
        copy->max_restarts = 10;
    } else if (copy->max_restarts == TROUPE_RESTARTS_NONE) {
        copy->max_restarts = 0;
    }
    return status;
}

struct trp_supervision *
trp_supervision_new(struct trp_core *core, const troupe_supervision *checked)
{
    size_t rule_bytes = checked->rule_count * sizeof *checked->rules;
    size_t bytes = sizeof(struct trp_supervision) + rule_bytes;
    struct trp_supervision *how = trp_heap_alloc(&core->heap, bytes);

    if (how == NULL) {
        return NULL;
    }
    trp_store_relaxed(&how->refs, 1); /* relaxed: nobody knows it yet */
    how->bytes = bytes;
    how->options = *checked;
    if (rule_bytes != 0) {
        memcpy(how->rules, checked->rules, rule_bytes);
        how->options.rules = how->rules;
    }
    if (checked->backoff != NULL) {
        how->backoff = *checked->backoff;
        how->options.backoff = &how->backoff;
    }
    return how;
}

void
trp_supervision_release(struct trp_core *core, struct trp_supervision *how)
{
    if (how != NULL &&
        trp_sub_acq_rel(&how->refs, 1) == 1) { /* pairs: supervision.refs */
        trp_heap_free(&core->heap, how, how->bytes);
    }
}

/* --- reports -------------------------------------------------------------- */

static struct trp_extra *
extra_of(const struct trp_cold *cold)
{
    return trp_load_acquire(&cold->extra); /* pairs: cell.extra */
}

/* Of the caller, or of one in a list of failures whose lock is held. */
static struct trp_failure *
failure_of(const struct trp_core *core, uint32_t index)
{
    return extra_of(&core->cold[index])->failure;
}

/* Of one whose child has failed. */
static struct trp_family *
family_of(const struct trp_cold *cold)
{
    return trp_load_acquire(&extra_of(cold)->family); /* pairs: cell.family */
}

/* The failure of the caller, made if need be; it is not in the extra yet. */
static struct trp_failure *
make_failure(struct trp_core *core, const struct trp_extra *extra)
{
    struct trp_failure *failure = extra->failure;

    if (failure == NULL) {
        failure = trp_heap_alloc(&core->heap, sizeof *failure);
        if (failure != NULL) {
            trp_fifo_init(&failure->restarts, &core->heap);
        }
    }
    return failure;
}

/* Made if need be; NULL: no memory. */
static struct trp_family *
make_family_locked(struct trp_core *core, struct trp_cold *cold)
{
    struct trp_extra *extra = trp_cell_extra_locked(core, cold);
    struct trp_family *family = extra != NULL ? family_of(cold) : NULL;

    if (extra != NULL && family == NULL) {
        family = trp_heap_alloc(&core->heap, sizeof *family);
        if (family != NULL) {
            trp_fifo_init(&family->restarts, &core->heap);
            trp_store_release(&extra->family, family); /* pairs: cell.family */
        }
    }
    return family;
}

void
trp_failures_free(struct trp_core *core, struct trp_extra *extra)
{
    struct trp_failure *failure = extra->failure;
    /* relaxed: nobody else can reach it. */
    struct trp_family *family = trp_load_relaxed(&extra->family);

    if (TRP_UNLIKELY(failure != NULL)) {
        trp_fifo_fini(&failure->restarts);
        trp_heap_free(&core->heap, failure, sizeof *failure);
    }
    if (TRP_UNLIKELY(family != NULL)) {
        trp_fifo_fini(&family->restarts);
        trp_heap_free(&core->heap, family, sizeof *family);
    }
}

#define FIRST_FAILED(family)                                                   \
    trp_load_relaxed(&(family)->first_failed) /* relaxed: under the lock */

static void
set_first_failed(struct trp_family *family, uint32_t index)
{
    trp_store_relaxed(&family->first_failed, index); /* relaxed: as above */
}

/* Out of the parent's list. */
static void
unlist_locked(struct trp_core *core, struct trp_family *family,
    struct trp_failure *failure)
{
    if (failure->prev == 0) {
        set_first_failed(family, failure->next);
    } else {
        failure_of(core, failure->prev)->next = failure->next;
    }
    if (failure->next == 0) {
        family->last_failed = failure->prev;
    } else {
        failure_of(core, failure->next)->prev = failure->prev;
    }
    failure->is_reported = false;
}

void
trp_failure_tell(struct troupe_self *self, const struct trp_life *life)
{
    /* relaxed: who subscribes meanwhile may miss one. */
    if (trp_load_relaxed(&self->core->life_listeners) != 0) {
        self->core->on_error(self->core, self->local, life);
    }
}

/*
 * To the end of the parent's list, unless it was told before it failed what
 * ends this state anyway: that is the answer. A resume that it has not seen was
 * meant for something else. E_STATE: the parent hears of nothing any more.
 */
static troupe_status
report_locked(struct trp_core *core, uint32_t parent, uint32_t index,
    struct trp_failure *failure)
{
    struct trp_family *family;
    uint8_t orders;

    if ((trp_cell_flags(trp_cell_at(core, parent)) & TRP_CELL_STOPPING) != 0) {
        return TROUPE_E_STATE;
    }
    family = make_family_locked(core, &core->cold[parent]);
    if (family == NULL) {
        return TROUPE_E_NOMEM;
    }
    orders = trp_and_acq_rel(&trp_cell_at(core, index)->orders,
        (uint8_t)~TRP_ORDER_RESUME); /* pairs: cell.orders */
    if ((orders & (TRP_ORDER_RESTART | TRP_ORDER_STOP)) != 0) {
        failure->due_ns = family->due_ns;
        return TROUPE_OK;
    }
    failure->prev = family->last_failed;
    failure->next = 0;
    failure->is_reported = true;
    if (failure->prev == 0) {
        set_first_failed(family, index);
    } else {
        failure_of(core, failure->prev)->next = index;
    }
    family->last_failed = index;
    return TROUPE_OK;
}

static troupe_status
report(struct troupe_self *self, struct trp_cell *cell, troupe_exit_kind kind,
    int32_t code)
{
    struct trp_core *core = self->core;
    uint32_t index = trp_cell_index(core, cell);
    uint32_t parent = trp_cell_parent(core, index);
    struct trp_extra *extra = trp_cell_extra(core, cell);
    struct trp_failure *failure =
        extra != NULL ? make_failure(core, extra) : NULL;
    troupe_status status;
    troupe_ref to;

    if (failure == NULL) {
        return TROUPE_E_NOMEM;
    }
    trp_cell_set_flags(cell, trp_cell_flags(cell) | TRP_CELL_FAILED);
    trp_lock_acquire(&core->cold[parent].lock);
    extra->failure = failure;
    failure->cause = (troupe_exit){trp_cell_ref(core, cell), kind, code};
    to = trp_cell_ref(core, trp_cell_at(core, parent));
    status = report_locked(core, parent, index, failure);
    trp_lock_release(&core->cold[parent].lock);
    if (status != TROUPE_OK) {
        trp_cell_set_flags(
            cell, trp_cell_flags(cell) & ~(uint32_t)TRP_CELL_FAILED);
        return status;
    }
    trp_order_children(core, self->local, cell, TRP_ORDER_HOLD, 0);
    (void)trp_mailbox_request(core, self->local, to, TRP_RING_SIGNAL);
    return TROUPE_OK;
}

bool
trp_failure_report(struct troupe_self *self, struct trp_cell *cell,
    troupe_exit_kind kind, int32_t code)
{
    troupe_status status = report(self, cell, kind, code);

    if (status == TROUPE_E_NOMEM) {
        const struct trp_life life =
            trp_life_of(self->core, cell, TROUPE_EXIT_FAILED, (int32_t)status);

        trp_failure_tell(self, &life);
    }
    return status == TROUPE_OK;
}

void
trp_failure_forget(struct trp_core *core, struct trp_cell *cell)
{
    uint32_t index = trp_cell_index(core, cell);
    struct trp_failure *failure = failure_of(core, index);
    struct trp_cold *parent = &core->cold[trp_cell_parent(core, index)];

    trp_lock_acquire(&parent->lock);
    if (failure->is_reported) {
        unlist_locked(core, family_of(parent), failure);
    }
    trp_lock_release(&parent->lock);
}

void
trp_family_forget(struct trp_core *core, struct trp_cell *cell)
{
    struct trp_cold *cold = trp_cold_of(core, cell);
    struct trp_family *family = extra_of(cold) != NULL ? family_of(cold) : NULL;

    if (family != NULL) {
        trp_lock_acquire(&cold->lock);
        trp_fifo_fini(&family->restarts);
        trp_lock_release(&cold->lock);
    }
}

/* --- orders --------------------------------------------------------------- */

static void
order_locked(struct trp_core *core, struct trp_local *local, uint32_t index,
    uint8_t set, uint8_t clear)
{
    struct trp_cell *cell = trp_cell_at(core, index);

    if (clear != 0) {
        (void)trp_and_acq_rel(
            &cell->orders, (uint8_t)~clear); /* pairs: cell.orders */
    }
    if (set != 0) {
        (void)trp_or_acq_rel(&cell->orders, set); /* pairs: cell.orders */
    }
    (void)trp_mailbox_request(
        core, local, trp_cell_ref(core, cell), TRP_RING_SIGNAL);
}

/* A failure that waits for an answer is not answered by a resume for all. */
static void
order_all_locked(struct trp_core *core, struct trp_local *local,
    struct trp_cold *cold, uint8_t set, uint8_t clear)
{
    uint32_t first = trp_first_child_locked(cold);
    uint32_t index = first;

    if (index == 0) {
        return;
    }
    do {
        struct trp_extra *extra = extra_of(&core->cold[index]);
        bool waits = extra != NULL && extra->failure != NULL &&
                     extra->failure->is_reported;

        order_locked(core, local, index,
            waits ? set & (uint8_t)~TRP_ORDER_RESUME : set, clear);
        index = core->cold[index].next;
    } while (index != first);
}

void
trp_order_children(struct trp_core *core, struct trp_local *local,
    struct trp_cell *cell, uint8_t set, uint8_t clear)
{
    struct trp_cold *cold = trp_cold_of(core, cell);

    trp_lock_acquire(&cold->lock);
    order_all_locked(core, local, cold, set, clear);
    trp_lock_release(&cold->lock);
}

uint64_t
trp_restart_due(
    struct trp_core *core, struct trp_cell *cell, troupe_exit *cause)
{
    uint32_t index = trp_cell_index(core, cell);
    struct trp_cold *parent = &core->cold[trp_cell_parent(core, index)];
    uint64_t due_ns;

    trp_lock_acquire(&parent->lock);
    *cause = family_of(parent)->cause; /* somebody gave the order */
    due_ns = family_of(parent)->due_ns;
    if ((trp_cell_flags(cell) & TRP_CELL_FAILED) != 0) {
        *cause = failure_of(core, index)->cause;
        due_ns = failure_of(core, index)->due_ns;
    }
    if ((trp_cell_flags(trp_cell_at(core, trp_cell_parent(core, index))) &
            TRP_CELL_STOPPING) != 0) {
        due_ns = 0; /* a stop waits behind it: see may_wait_long() in stop.c */
    }
    trp_lock_release(&parent->lock);
    return due_ns;
}

/* --- answers -------------------------------------------------------------- */

/* One that was taken off the parent's list. */
struct question {
    uint32_t index;
    troupe_exit cause;
    struct trp_supervision *how; /* NULL: the default; held */
    uint32_t restarts;           /* in the window */
};

static const troupe_supervision default_supervision = {
    .size = sizeof(troupe_supervision),
    .window_ns = UINT64_C(60) * 1000000000,
    .max_restarts = 10,
};

static const troupe_supervision *
options_of(const struct question *question)
{
    return question->how != NULL ? &question->how->options
                                 : &default_supervision;
}

uint32_t
trp_restarts_count(struct trp_fifo *budget, uint64_t now_ns, uint64_t window_ns)
{
    const struct trp_order_entry *first;
    struct trp_order_entry entry;

    while (window_ns != TROUPE_FOREVER &&
           (first = trp_fifo_first(budget)) != NULL && now_ns > window_ns &&
           first->sequence < now_ns - window_ns) {
        (void)trp_fifo_take_first(budget, &entry);
    }
    return trp_fifo_length(budget);
}

static struct trp_fifo *
budget_of(const struct question *question, struct trp_family *family,
    struct trp_failure *failure)
{
    return options_of(question)->scope == TROUPE_SCOPE_ALL_FOR_ONE
               ? &family->restarts
               : &failure->restarts;
}

static bool
take_question(
    struct trp_core *core, struct trp_cold *cold, struct question *question)
{
    struct trp_family *family = family_of(cold);

    trp_lock_acquire(&cold->lock);
    question->index = FIRST_FAILED(family);
    if (question->index != 0) {
        struct trp_extra *child = extra_of(&core->cold[question->index]);

        unlist_locked(core, family, child->failure);
        question->cause = child->failure->cause;
        question->how =
            child->own != NULL ? child->own : extra_of(cold)->children;
        if (question->how != NULL) {
            /* relaxed: the actor that has it holds it, too. */
            trp_add_relaxed(&question->how->refs, 1);
        }
        question->restarts =
            trp_restarts_count(budget_of(question, family, child->failure),
                trp_alarm_now(&core->sched), options_of(question)->window_ns);
    }
    trp_lock_release(&cold->lock);
    return question->index != 0;
}

/* Runs the user's function, outside every lock. */
static troupe_directive
decide(const struct question *question)
{
    const troupe_supervision *options = options_of(question);
    troupe_directive directive = options->otherwise;
    bool is_ruled = false;

    for (size_t i = 0; i < options->rule_count && !is_ruled; i++) {
        const troupe_rule *rule = &options->rules[i];

        is_ruled = question->cause.code >= rule->code_from &&
                   question->cause.code <= rule->code_to;
        if (is_ruled) {
            directive = rule->directive;
        }
    }
    if (!is_ruled && options->decide != NULL) {
        directive = options->decide(
            &question->cause, question->restarts, options->user);
    }
    if ((uint32_t)directive > TROUPE_DIRECTIVE_ESCALATE) {
        return TROUPE_DIRECTIVE_ESCALATE;
    }
    /* There is no state that it could go on with. */
    return directive == TROUPE_DIRECTIVE_RESUME &&
                   question->cause.kind == TROUPE_EXIT_START_FAILED
               ? TROUPE_DIRECTIVE_RESTART
               : directive;
}

static uint64_t
pause_ns(const struct question *question)
{
    const troupe_supervision *options = options_of(question);

    return options->backoff != NULL
               ? trp_backoff_delay_ns(options->backoff, question->restarts)
               : 0;
}

/* One more restart. E_LIMIT: the budget does not allow it; E_NOMEM. */
static troupe_status
spend_locked(
    struct trp_fifo *budget, const struct question *question, uint64_t now_ns)
{
    const troupe_supervision *options = options_of(question);
    const struct trp_order_entry entry = {.sequence = now_ns};
    struct trp_order_entry oldest;

    if (options->max_restarts != TROUPE_RESTARTS_UNLIMITED &&
        trp_fifo_length(budget) >= options->max_restarts) {
        return TROUPE_E_LIMIT;
    }
    if (options->max_restarts == TROUPE_RESTARTS_UNLIMITED &&
        trp_fifo_length(budget) >= RESTARTS_TOLD) {
        (void)trp_fifo_take_first(budget, &oldest);
    }
    return trp_fifo_push_last(budget, &entry) ? TROUPE_OK : TROUPE_E_NOMEM;
}

/*
 * All of them get the same order: it answers what the others have reported, but
 * for a resume, which may not be what their failures need.
 */
static void
order_family_locked(struct troupe_self *self, struct trp_cold *cold,
    struct trp_family *family, uint8_t order)
{
    uint32_t index;

    while (order != TRP_ORDER_RESUME && (index = FIRST_FAILED(family)) != 0) {
        struct trp_failure *failure = failure_of(self->core, index);

        unlist_locked(self->core, family, failure);
        failure->due_ns = family->due_ns;
    }
    order_all_locked(self->core, self->local, cold, order, 0);
}

/*
 * What the directive means for the child, or for all of them. The child may
 * have gone meanwhile, by a K. False: the budget is used up, or cannot be
 * kept.
 */
static bool
carry_out(struct troupe_self *self, struct trp_cold *cold,
    const struct question *question, troupe_directive directive)
{
    static const uint8_t orders[] = {
        [TROUPE_DIRECTIVE_RESTART] = TRP_ORDER_RESTART,
        [TROUPE_DIRECTIVE_RESUME] = TRP_ORDER_RESUME,
        [TROUPE_DIRECTIVE_STOP] = TRP_ORDER_STOP};
    bool all = options_of(question)->scope == TROUPE_SCOPE_ALL_FOR_ONE;
    struct trp_core *core = self->core;
    struct trp_cell *cell = trp_cell_at(core, question->index);
    uint64_t now_ns = trp_alarm_now(&core->sched);
    struct trp_family *family = family_of(cold);
    troupe_status status = TROUPE_OK;
    struct trp_extra *child;
    struct trp_life life;

    trp_lock_acquire(&cold->lock);
    child = extra_of(&core->cold[question->index]);
    /* It cannot leave the tree now, so what it has is not freed. */
    if (child != NULL &&
        trp_cell_life(cell) == question->cause.actor.generation) {
        struct trp_failure *failure = child->failure;

        if (directive == TROUPE_DIRECTIVE_RESTART) {
            uint64_t pause = pause_ns(question);

            status = spend_locked(
                budget_of(question, family, failure), question, now_ns);
            life = trp_life_of(core, cell, TROUPE_EXIT_FAILED, (int32_t)status);
            failure->due_ns =
                pause > UINT64_MAX - now_ns ? UINT64_MAX : now_ns + pause;
            if (all) {
                family->due_ns = failure->due_ns;
                family->cause = question->cause;
            }
        }
        if (status == TROUPE_OK && all) {
            order_family_locked(self, cold, family, orders[directive]);
        } else if (status == TROUPE_OK) {
            order_locked(
                core, self->local, question->index, orders[directive], 0);
        }
    }
    trp_lock_release(&cold->lock);
    if (status == TROUPE_E_NOMEM) {
        trp_failure_tell(self, &life);
    }
    return status == TROUPE_OK;
}

enum trp_answer
trp_failure_answer(
    struct troupe_self *self, struct trp_cell *cell, troupe_exit *cause)
{
    struct trp_core *core = self->core;
    struct trp_cold *cold = trp_cold_of(core, cell);
    enum trp_answer answer = TRP_ANSWER_GIVEN;
    struct question question;
    troupe_directive directive;

    if (!trp_failures_wait(core, cell) ||
        !take_question(core, cold, &question)) {
        return TRP_ANSWER_NONE;
    }
    directive = decide(&question);
    if (directive != TROUPE_DIRECTIVE_ESCALATE &&
        !carry_out(self, cold, &question, directive)) {
        directive = options_of(&question)->give_up == TROUPE_GIVE_UP_ESCALATE
                        ? TROUPE_DIRECTIVE_ESCALATE
                        : TROUPE_DIRECTIVE_STOP;
        if (directive == TROUPE_DIRECTIVE_STOP) {
            (void)carry_out(self, cold, &question, directive);
        }
    }
    core->on_failed(core, &question.cause, directive, question.restarts);
    if (directive == TROUPE_DIRECTIVE_ESCALATE) {
        *cause = question.cause;
        answer = TRP_ANSWER_ESCALATE;
    }
    trp_supervision_release(core, question.how);
    return answer;
}
