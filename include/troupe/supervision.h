/* SPDX-License-Identifier: MIT */
#ifndef TROUPE_SUPERVISION_H
#define TROUPE_SUPERVISION_H

#include <troupe/backoff.h>
#include <troupe/exit.h>

TROUPE_BEGIN_DECLS

/*
 * What a parent does about a child that has failed (docs/failure.md). Until it
 * is done the child and all below it handle nothing. A stop wins over each.
 */
typedef enum troupe_directive {
    /* A new state; ref, mailbox, watchers stay, its children stop: actor.h. */
    TROUPE_DIRECTIVE_RESTART = 0,
    /* The old state; after a failed start() there is none: a restart. */
    TROUPE_DIRECTIVE_RESUME = 1,
    TROUPE_DIRECTIVE_STOP = 2, /* it ends, as TROUPE_EXIT_FAILED */
    /*
     * The parent itself fails, with this code. If it is resumed so is the
     * child, which ends if it had not started. Above /user is nobody: the
     * system stops.
     */
    TROUPE_DIRECTIVE_ESCALATE = 3 /* also: whatever is none of these */
} troupe_directive;

/* Failures that are there together are one for ALL_FOR_ONE, unless resumed. */
typedef enum troupe_scope {
    TROUPE_SCOPE_ONE_FOR_ONE = 0, /* budget per child */
    TROUPE_SCOPE_ALL_FOR_ONE = 1  /* one budget; siblings share the fate */
} troupe_scope;

/* First rule whose range holds the code wins. Frozen: lives in arrays. */
typedef struct troupe_rule {
    int32_t code_from;
    int32_t code_to; /* inclusive */
    troupe_directive directive;
} troupe_rule;

/*
 * In the parent's turn, if no rule holds the code. No sends, no blocking. It is
 * told of 1024 restarts at most if they are unlimited.
 */
typedef troupe_directive (*troupe_decide_fn)(const troupe_exit *exit,
    uint32_t restarts_in_window, void *user) TROUPE_NOEXCEPT;

typedef enum troupe_give_up { /* when the budget is used up */
    TROUPE_GIVE_UP_STOP = 0,
    TROUPE_GIVE_UP_ESCALATE = 1
} troupe_give_up;

#define TROUPE_RESTARTS_NONE UINT32_MAX
#define TROUPE_RESTARTS_UNLIMITED (UINT32_MAX - 1)

/*
 * How failures are answered. A description, never a tally: one value serves
 * any number of parents. The budget is literal: 3 means three restarts, failed
 * starts included, and the fourth failure gives up; what is resumed is not
 * counted. Zeroed but for the size it is the default, which holds as well where
 * neither parent nor child have one.
 */
typedef struct troupe_supervision {
    size_t size;
    troupe_scope scope;
    troupe_directive otherwise; /* when neither rules nor decide speak */
    const troupe_rule *rules;   /* copied; may be NULL */
    size_t rule_count;
    troupe_decide_fn decide; /* may be NULL */
    void *user;              /* must live as long as the actors */
    uint64_t window_ns;      /* 0 = 60 s; or TROUPE_FOREVER */
    uint32_t max_restarts;   /* 0 = 10; or TROUPE_RESTARTS_* */
    troupe_give_up give_up;
    const troupe_backoff *backoff; /* between restarts; NULL = at once */
} troupe_supervision;

TROUPE_END_DECLS

#endif /* TROUPE_SUPERVISION_H */
