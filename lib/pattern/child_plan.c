/* SPDX-License-Identifier: MIT */
#include "pattern/child_plan.h"

#include "base/options.h"

#include <string.h>

static void
copy_part(void *to, size_t bytes, const void *from, const char *call)
{
    memset(to, 0, bytes);
    if (from != NULL) {
        (void)trp_options_copy(to, bytes, from, call);
    }
}

void
trp_child_plan_make(struct trp_child_plan *plan,
    const troupe_spawn_options *given, const char *call)
{
    const troupe_spawn_options *options = &plan->options;

    copy_part(&plan->options, sizeof plan->options, given, call);
    copy_part(&plan->mailbox, sizeof plan->mailbox, options->mailbox, call);
    copy_part(&plan->throttle, sizeof plan->throttle, options->throttle, call);
    copy_part(&plan->children, sizeof plan->children, options->children, call);
    copy_part(&plan->own, sizeof plan->own, options->own, call);
    copy_part(&plan->children_pause, sizeof plan->children_pause,
        plan->children.backoff, call);
    copy_part(
        &plan->own_pause, sizeof plan->own_pause, plan->own.backoff, call);
}

static size_t
rules_bytes(const troupe_supervision *supervision)
{
    return supervision->rule_count * sizeof(troupe_rule);
}

size_t
trp_child_plan_tail(const struct trp_child_plan *plan)
{
    return rules_bytes(&plan->children) + rules_bytes(&plan->own) +
           plan->options.arg_bytes;
}

static char *
pack(char *to, const void *from, size_t bytes)
{
    if (bytes != 0) {
        memcpy(to, from, bytes);
    }
    return to + bytes;
}

void
trp_child_plan_pack(const struct trp_child_plan *plan, void *tail)
{
    char *to = tail;

    to = pack(to, plan->children.rules, rules_bytes(&plan->children));
    to = pack(to, plan->own.rules, rules_bytes(&plan->own));
    (void)pack(to, plan->options.arg, plan->options.arg_bytes);
}

/* NULL if there is none; `rules` are those of it in the tail. */
static const troupe_supervision *
supervision_of(troupe_supervision *to, const troupe_supervision *plan,
    const troupe_backoff *pause, const void *rules)
{
    if (plan->size == 0) {
        return NULL;
    }
    *to = *plan;
    to->size = sizeof *to;
    to->rules = plan->rule_count != 0 ? rules : NULL;
    to->backoff = pause->size != 0 ? pause : NULL;
    return to;
}

void
trp_child_plan_options(const struct trp_child_plan *plan, const void *tail,
    struct trp_child_parts *parts, troupe_spawn_options *options)
{
    const char *at = tail;

    *options = plan->options;
    options->size = sizeof *options;
    options->mailbox = plan->mailbox.size != 0 ? &plan->mailbox : NULL;
    options->throttle = plan->throttle.size != 0 ? &plan->throttle : NULL;
    options->children = supervision_of(
        &parts->children, &plan->children, &plan->children_pause, at);
    at += rules_bytes(&plan->children);
    options->own =
        supervision_of(&parts->own, &plan->own, &plan->own_pause, at);
    at += rules_bytes(&plan->own);
    options->arg = plan->options.arg_bytes != 0 ? at : NULL;
}
