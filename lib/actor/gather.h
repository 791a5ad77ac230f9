/* SPDX-License-Identifier: MIT */
#ifndef TRP_ACTOR_GATHER_H
#define TRP_ACTOR_GATHER_H

/*
 * One question to many, one outcome: troupe_gather(). Operations of one actor,
 * all of them in its own turns, so nothing here is atomic.
 *
 *   outer   what the caller has a ticket of; its deadline is that of the whole
 *   part    an ask for each of those who are asked, without a deadline
 *   pause   before the next one is asked; with a tail delay only
 *
 *                 answers, failures          decided, deadline, cancel, end of
 *   WAITS --> ASKED ----------> ANSWERED     the actor
 *     |         |                  |              |
 *     |         +----> OVER <------+ the winner   v
 *     +------------------------------> trp_gather_end(): the outer one gets its
 *                                      message, all the others are closed
 *
 * The state is a box that holds all parts, and becomes the message that is
 * shown: what a question or an answer holds lies in its part, so that an answer
 * needs no memory.
 *
 * Invariants
 *   G1  While the outer one is PENDING the state lives, and the continuations
 *       of the parts and of the pause may look at it.
 *   G2  Afterwards none of them does: those that were PENDING have been given
 *       back, those that had ended already have another continuation, for
 *       which an answer is a late one.
 *   G3  All that can fail for want of memory is done before the first question
 *       is sent, but for the pause: without one, the next is asked at once.
 */

#include <troupe/gather.h>

#include "actor/op.h"

/* A message of any length. */
struct trp_question {
    const troupe_msg_type *type;
    const void *payload;
    size_t bytes;
    uint64_t hops; /* TRP_MARK_HOPS, of what a router sends on */
};
/* troupe_gather() for whoever forwards what it got: routers. */
troupe_status trp_gather(struct troupe_self *self, const char *call,
    const troupe_ref *whom, size_t count, const struct trp_question *question,
    const troupe_gather_options *options, troupe_continuation then,
    troupe_ticket *ticket);

/*
 * The outer one has ended, with a status that this may improve: BEST at its
 * deadline. Before its continuation is in line. Only for op.c.
 */
void trp_gather_end(struct troupe_self *self, struct trp_op *outer);

#endif /* TRP_ACTOR_GATHER_H */
