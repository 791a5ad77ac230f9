/* SPDX-License-Identifier: MIT */
#include "support/grove_inside.h"

#include <math.h>
#include <stdlib.h>

/* --- hooks ---------------------------------------------------------------- */

static bool
is_kept(const troupe_msg *msg)
{
    return (msg->type->flags & TROUPE_MSG_UNDROPPABLE) != 0 ||
           troupe_msg_tag(msg) == TROUPE_TAG_DOWN;
}

/* Now and then one more message, to anybody: perhaps to the same mailbox. */
static void
on_drop(troupe_drop_reason reason, const troupe_msg *msg, void *user)
{
    struct grove *grove = user;
    const struct leaf leaf = {grove, WORK, 0};
    uint32_t to = grove_draw_outside(grove, grove->count);

    CHECK(grove, reason <= TROUPE_DROP_THROTTLE);
    CHECK(grove, !is_kept(msg));
    if (grove_draw_outside(grove, 8) == 0 && !grove_is_tired(grove)) {
        atomic_fetch_add(&grove->made, 1);
        troupe_post_tell(
            grove->system, grove_ref_of(&grove->node[to]), &leaf_type, &leaf);
    }
}

/* More hops are more urgent; some cannot be told. */
static double
rank_of(const troupe_msg *msg, void *user)
{
    const struct leaf *leaf = grove_leaf_of(msg);

    CHECK((struct grove *)user, troupe_msg_tag(msg) < 1000);
    if (leaf == NULL) {
        return 1;
    }
    return leaf->hops == UNRANKABLE ? (double)NAN : -(double)leaf->hops;
}

static void
on_unrankable(const troupe_msg *msg, void *user)
{
    const struct leaf *leaf = grove_leaf_of(msg);

    CHECK((struct grove *)user, leaf != NULL && leaf->hops == UNRANKABLE);
}

/* --- a mailbox of one's own: first in, first out -------------------------- */

enum line_kind { LINE_REJECTS, LINE_DROPS_NEW, LINE_DROPS_OLD, LINE_KINDS };

struct link {
    struct link *next;
    troupe_msg *msg;
    bool is_kept; /* as it came: of a timer's the type does not say so */
};

struct line {
    struct grove *grove;
    enum line_kind kind;
    uint32_t limit;
    uint32_t droppable;
    size_t count;
    struct link *first, **end;
};

static void *
open_line(void *user)
{
    struct line *line = calloc(1, sizeof *line);

    test_require(line != NULL);
    line->grove = user;
    line->kind = grove_draw_outside(line->grove, LINE_KINDS);
    line->limit = 1 + grove_draw_outside(line->grove, 6);
    line->end = &line->first;
    return line;
}

static void
close_line(void *box)
{
    struct line *line = box;

    CHECK(line->grove, line->count == 0 && line->first == NULL);
    free(line);
}

static void
link_in(struct line *line, struct link **place, troupe_msg *msg,
    bool is_undroppable)
{
    struct link *link = malloc(sizeof *link);

    test_require(link != NULL);
    *link = (struct link){*place, msg, is_undroppable};
    *place = link;
    if (link->next == NULL) {
        line->end = &link->next;
    }
    line->count++;
    line->droppable += !is_undroppable;
}

static troupe_msg *
link_out(struct line *line, struct link **place)
{
    struct link *link = *place;
    troupe_msg *msg = link->msg;

    *place = link->next;
    if (link->next == NULL) {
        line->end = place;
    }
    line->count--;
    line->droppable -= !link->is_kept;
    free(link);
    return msg;
}

/* Of those that may go: the oldest. */
static struct link **
oldest(struct line *line)
{
    struct link **place = &line->first;

    while ((*place)->is_kept) {
        place = &(*place)->next;
    }
    return place;
}

static troupe_status
admit(struct line *line, bool in_front, troupe_msg *msg, troupe_msg **evicted)
{
    CHECK(line->grove, *evicted == NULL && !is_kept(msg));
    if (line->droppable >= line->limit) {
        if (line->kind == LINE_REJECTS) {
            return TROUPE_E_FULL;
        }
        if (line->kind == LINE_DROPS_NEW) {
            *evicted = msg;
            return TROUPE_OK;
        }
        *evicted = link_out(line, oldest(line));
    }
    link_in(line, in_front ? &line->first : line->end, msg, false);
    return TROUPE_OK;
}

static troupe_status
enqueue(void *box, troupe_msg *msg, troupe_msg **evicted)
{
    return admit(box, false, msg, evicted);
}

static troupe_status
enqueue_kept(void *box, troupe_msg *msg)
{
    struct line *line = box;

    link_in(line, line->end, msg, true);
    return TROUPE_OK;
}

static troupe_status
prepend(void *box, troupe_msg *msg, troupe_msg **evicted)
{
    return admit(box, true, msg, evicted);
}

static troupe_msg *
dequeue(void *box)
{
    struct line *line = box;

    return line->first != NULL ? link_out(line, &line->first) : NULL;
}

static size_t
length(const void *box)
{
    return ((const struct line *)box)->count;
}

static const troupe_custom_mailbox line_mailbox = {
    .size = sizeof(troupe_custom_mailbox),
    .name = "line",
    .open = open_line,
    .close = close_line,
    .enqueue = enqueue,
    .enqueue_undroppable = enqueue_kept,
    .prepend = prepend,
    .dequeue = dequeue,
    .length = length,
};

/* --- how they are drawn --------------------------------------------------- */

static void
draw_priority(
    struct test_rng *rng, struct grove *grove, troupe_mailbox_options *mailbox)
{
    static const troupe_overflow some[] = {TROUPE_OVERFLOW_REJECT,
        TROUPE_OVERFLOW_DROP_NEW, TROUPE_OVERFLOW_DROP_LOWEST};

    mailbox->priority = rank_of;
    mailbox->on_unrankable = on_unrankable;
    mailbox->priority_user = grove;
    mailbox->ageing_ns = test_random_below(rng, 2) * TROUPE_US(20);
    if (test_random_below(rng, 4) != 0) {
        mailbox->capacity = 1 + test_random_below(rng, 8);
        mailbox->overflow = some[test_random_below(rng, 3)];
    }
}

static void
draw_mailbox(
    struct test_rng *rng, struct grove *grove, troupe_mailbox_options *mailbox)
{
    static const troupe_overflow some[] = {TROUPE_OVERFLOW_REJECT,
        TROUPE_OVERFLOW_DROP_NEW, TROUPE_OVERFLOW_DROP_HEAD};

    mailbox->size = sizeof *mailbox;
    mailbox->on_drop = on_drop;
    mailbox->drop_user = grove;
    if (test_random_below(rng, 3) == 0) {
        mailbox->flags = TROUPE_MAILBOX_DEAD_LETTER_DROPS;
    }
    switch (test_random_below(rng, 7)) {
    case 0:
        mailbox->custom = &line_mailbox;
        mailbox->custom_user = grove;
        break;
    case 1:
    case 2:
        draw_priority(rng, grove, mailbox);
        break;
    case 3: /* a limit that nobody reaches */
        mailbox->warn_depth = 2;
        break;
    default:
        mailbox->capacity = 1 + test_random_below(rng, 8);
        mailbox->overflow = some[test_random_below(rng, 3)];
    }
}

void
grove_draw_boxes(struct test_rng *rng, struct grove *grove,
    troupe_spawn_options *options, troupe_mailbox_options *mailbox,
    troupe_throttle_options *throttle)
{
    if (test_random_below(rng, 3) != 0) {
        draw_mailbox(rng, grove, mailbox);
        options->mailbox = mailbox;
    }
    if (test_random_below(rng, 4) == 0) {
        throttle->size = sizeof *throttle;
        throttle->per_second = test_random_below(rng, 2) == 0 ? 5e3 : 1e5;
        throttle->burst = 1 + test_random_below(rng, 3);
        throttle->on_excess = test_random_below(rng, 2) == 0
                                  ? TROUPE_EXCESS_PAUSE
                                  : TROUPE_EXCESS_DROP;
        options->throttle = throttle;
    }
    options->stash_capacity = test_random_below(rng, 3) * 4;
}
