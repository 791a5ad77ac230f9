/* SPDX-License-Identifier: MIT */
#ifndef TROUPE_THROTTLE_H
#define TROUPE_THROTTLE_H

#include <troupe/types.h>

TROUPE_BEGIN_DECLS

typedef enum troupe_excess {
    TROUPE_EXCESS_PAUSE = 0, /* wait for the next token, without polling */
    TROUPE_EXCESS_DROP = 1   /* counted, on_drop told with DROP_THROTTLE */
} troupe_excess;

/*
 * A token bucket in front of the mailbox: handling a droppable message costs
 * one token. Stops, death notices, timers and undroppable types cost none, but
 * keep their place in line. While it waits for a token an actor uses no
 * processor; what waits counts in its depth, and is not waited for by
 * troupe_system_await_idle(). A system that stops does not wait for the tokens:
 * what is queued becomes dead letters. An actor that throttles itself after
 * that has begun ends with the message at hand.
 */
typedef struct troupe_throttle_options {
    size_t size;
    double per_second; /* required, > 0, finite */
    double burst;      /* 0 = per_second; less than 1 counts as 1 */
    troupe_excess on_excess;
    uint32_t reserved;
} troupe_throttle_options;

/*
 * On the actor's own turn, from the next message on. Starts with a full bucket,
 * replaces an earlier one; NULL = no throttle. E_INVALID: see
 * troupe_last_error(). E_NOMEM: nothing changed.
 */
TROUPE_API TROUPE_NODISCARD troupe_status troupe_throttle(
    troupe_self *self, const troupe_throttle_options *options);

TROUPE_END_DECLS

#endif /* TROUPE_THROTTLE_H */
