/* SPDX-License-Identifier: MIT */
#ifndef TRP_PATTERN_CHILD_PLAN_H
#define TRP_PATTERN_CHILD_PLAN_H

/*
 * Spawn options that are kept for later spawns, in one block of memory:
 *
 *     struct trp_child_plan | rules of `children` | rules of `own` | arg
 *
 * As they were given, without defaults: what the checks of a spawn make of them
 * is for that spawn only. The pointers in the plan are those that were given,
 * and are not followed after it was packed.
 */

#include <troupe/actor.h>
#include <troupe/mailbox.h>
#include <troupe/supervision.h>
#include <troupe/throttle.h>

struct trp_child_plan {
    troupe_spawn_options options;
    troupe_mailbox_options mailbox; /* size 0: none; so with the others */
    troupe_throttle_options throttle;
    troupe_supervision children, own;
    troupe_backoff children_pause, own_pause;
};

/* What the options of one spawn point to. */
struct trp_child_parts {
    troupe_supervision children, own;
};

/* `given` were checked by trp_spawn_check(), or are NULL. */
void trp_child_plan_make(struct trp_child_plan *plan,
    const troupe_spawn_options *given, const char *call);

/* Of what comes behind the plan. */
size_t trp_child_plan_tail(const struct trp_child_plan *plan);
/* Copies it from where it was given. */
void trp_child_plan_pack(const struct trp_child_plan *plan, void *tail);

/* What the plan says, with pointers into it, its tail and `parts`. */
void trp_child_plan_options(const struct trp_child_plan *plan, const void *tail,
    struct trp_child_parts *parts, troupe_spawn_options *options);

#endif /* TRP_PATTERN_CHILD_PLAN_H */
