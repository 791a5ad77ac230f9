/* SPDX-License-Identifier: MIT */
#ifndef TEST_SUPPORT_GROVE_INSIDE_H
#define TEST_SUPPORT_GROVE_INSIDE_H

/*
 * What the files of a grove share.
 *
 *   grove.c        the actors, how they are drawn, and who looks from outside
 *   grove_acts.c   what an actor does with itself and others: timers, delayed
 *                  messages, stash, throttle, asks, watches
 *   grove_boxes.c  mailboxes of every kind
 *
 * A grove that is calm begins nothing any more and lets go of what would come
 * again, so that it comes to rest; see grove_calm().
 */

#include "support/grove.h"
#include "support/seed.h"
#include "support/system.h"

#include <troupe/troupe.h>

#include <stdatomic.h>

enum { MOST_NODES = 20, MOST_HOPS = 6, MOST_WATCHED = 64, MOST_TWIGS = 40 };
enum { MOST_MADE = 600 };
enum { MOST_LEDGER = 8, TIMER_KEYS = 3, MOST_DELAYED = 16, MOST_TICKS = 24 };
/* Starts that fail, in all of a grove: chance may have them end the world. */
enum { MOST_BAD_STARTS = 20 };

/* Of whom a notice is due. */
enum due {
    DUE_NO = 0,
    DUE_YES,     /* it has to come, once */
    DUE_STASHED, /* it was there, and lies in the stash */
    DUE_MAYBE    /* of several that were stashed some were put back */
};

struct due_notice {
    troupe_ref whom;
    enum due due;
};

struct node {
    struct grove *grove;
    uint32_t id;
    uint32_t parent; /* itself: a root */
    troupe_supervision children, own;
    troupe_rule rules[4];
    troupe_backoff backoff;
    troupe_mailbox_options mailbox;
    troupe_throttle_options throttle;
    troupe_spawn_options options;
    /* Stashes what its timers bring, so that it may come at any time. */
    bool stashes_ticks;
    char name[8];
    _Atomic uint64_t key;     /* of its last ref; 0: none yet */
    _Atomic uint32_t running; /* states that are there: 0 or 1 */
    _Atomic uint64_t draws;   /* of its random numbers */
    /* The actor's own, and survives its restarts; a grove at rest is read. */
    uint64_t ledger_key; /* whose it is */
    struct due_notice ledger[MOST_LEDGER];
};

struct grove {
    troupe_system *system;
    uint64_t seed;
    enum grove_kind kind;
    uint32_t count;
    struct node node[MOST_NODES];
    _Atomic bool is_calm;
    _Atomic uint64_t starts, made, dropped, called, answered;
    _Atomic uint64_t begun, ended; /* operations */
    _Atomic uint64_t serials;      /* of timers that were started */
    _Atomic uint64_t hook_draws;
    _Atomic uint64_t delayed[MOST_DELAYED]; /* ids; 0 = free */
    _Atomic uint32_t bad_starts, twigs;
    troupe_port *port;
    troupe_ref watched[MOST_WATCHED];
    uint32_t notices[MOST_WATCHED], watched_count;
};

/* A timer of this life that was started last under its key. */
struct clockwork {
    uint64_t serial; /* 0: it is not to come any more */
    uint64_t due_ns, interval_ns;
    bool is_periodic;
};

struct being {
    uint64_t mark;
    struct node *node; /* NULL: a twig */
    struct grove *grove;
    uint64_t count, copy;
    troupe_ref self;
    struct clockwork timer[TIMER_KEYS];
    uint32_t ticks;       /* so that they come to an end */
    uint32_t open;        /* operations */
    troupe_ticket ticket; /* of the last one */
    uint32_t rounds;      /* of AGAIN: it comes to an end */
    bool goes_on;         /* with its stash: AGAIN is under way */
    bool is_awaiting;     /* one of them */
    uint64_t silence_ns;  /* of the receive timeout; 0: none */
    uint64_t active_ns;   /* not silent since */
    bool is_away;         /* the current message: stashed, or passed on */
};

#define CHECK(grove, expr)                                                     \
    ((expr) ? (void)0 : grove_fail((grove), __FILE__, __LINE__, #expr))
__attribute__((noreturn)) void grove_fail(
    const struct grove *grove, const char *file, int line, const char *what);

/* --- messages ------------------------------------------------------------- */

/* SURE: an ask without a deadline, which is answered at once. */
enum { WORK, CALL, ASK, SURE, ANSWER, AGAIN };
enum { UNRANKABLE = 3 }; /* hops that have no rank */

struct leaf { /* owns one of grove->made */
    struct grove *grove;
    uint32_t what;
    uint32_t hops;
};

struct branch { /* the same in a box */
    struct leaf leaf;
    uint64_t more[6];
};

struct tick { /* of a timer; owns nothing */
    uint64_t serial;
    uint64_t key;
};

struct knell { /* the same in a box */
    struct tick tick;
    uint64_t more[3];
};

enum { TAG_LEAF = 1, TAG_BRANCH, TAG_SHARED, TAG_KEPT, TAG_TICK, TAG_KNELL };

extern const troupe_msg_type leaf_type, branch_type, shared_type;
extern const troupe_msg_type kept_type; /* a leaf that is not dropped */
extern const troupe_msg_type tick_type, knell_type;

/* NULL: something else. */
const struct leaf *grove_leaf_of(const troupe_msg *msg);
const struct tick *grove_tick_of(const troupe_msg *msg);

/* A payload of any type that is a leaf, counted as made. */
struct cargo {
    const troupe_msg_type *type;
    struct branch branch;
};
struct cargo grove_load(struct node *node, uint32_t what, uint32_t hops);
/* What they do makes more work than it takes: there has to be an end to it. */
static inline bool
grove_is_tired(const struct grove *grove)
{
    return atomic_load(&grove->is_calm) ||
           atomic_load(&grove->made) >= MOST_MADE;
}
/* It was not taken. */
static inline void
grove_unload(struct grove *grove)
{
    atomic_fetch_sub(&grove->made, 1);
}

/* --- by chance ------------------------------------------------------------ */

uint32_t grove_draw(struct node *node, uint32_t below);
/* Any thread, any actor. */
uint32_t grove_draw_outside(struct grove *grove, uint32_t below);
troupe_ref grove_ref_of(const struct node *node);
troupe_ref grove_anybody(struct node *node);

/* --- what they do --------------------------------------------------------- */

void grove_check_state(troupe_self *self, const struct being *being);

/* One of them, drawn. True: `*verdict` is to be returned. */
bool grove_act(troupe_self *self, struct being *being, uint32_t hops,
    troupe_verdict *verdict);
void grove_answer(
    troupe_self *self, struct being *being, uint32_t what, uint32_t hops);
troupe_verdict grove_tick(
    troupe_self *self, struct being *being, const struct tick *tick);
troupe_verdict grove_silence(troupe_self *self, struct being *being);
void grove_hear(struct being *being, const troupe_exit *end);
/* The current message; `notice`, if it is one. False: the stash is full. */
bool grove_stash(
    troupe_self *self, struct being *being, const troupe_exit *notice);
void grove_watch_one(troupe_self *self, struct being *being, troupe_ref whom);
/* Puts a bit of the stash back: for one who has nothing else to do. */
void grove_drain_stash(troupe_self *self, struct being *being);
/* start() has begun; stop() or restart(). */
void grove_ledger_begin(struct being *being);
void grove_being_ends(struct being *being, bool restarts);
/* Of a grove at rest: nobody waits for a notice that should have come. */
void grove_check_ledger(const struct grove *grove, const struct node *node);

/* Into memory that lives as long as the grove. */
void grove_draw_boxes(struct test_rng *rng, struct grove *grove,
    troupe_spawn_options *options, troupe_mailbox_options *mailbox,
    troupe_throttle_options *throttle);

#endif /* TEST_SUPPORT_GROVE_INSIDE_H */
