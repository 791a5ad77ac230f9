/* SPDX-License-Identifier: MIT */
#ifndef TROUPE_TROUPE_H
#define TROUPE_TROUPE_H

/*
 * troupe: actors for servers in C. Read in this order; each header includes
 * what it needs and compiles alone. <troupe/testkit.h> belongs to a library of
 * its own.
 */

/* values */
#include <troupe/decl.h>
#include <troupe/message.h>
#include <troupe/status.h>
#include <troupe/types.h>
#include <troupe/version.h>

/* actors */
#include <troupe/actor.h>
#include <troupe/ask.h>
#include <troupe/exit.h>
#include <troupe/gather.h>
#include <troupe/mailbox.h>
#include <troupe/result.h>
#include <troupe/router.h>
#include <troupe/send.h>
#include <troupe/stash.h>
#include <troupe/stop.h>
#include <troupe/supervision.h>
#include <troupe/throttle.h>
#include <troupe/timer.h>
#include <troupe/tree.h>
#include <troupe/watch.h>

/* when something fails */
#include <troupe/backoff.h>
#include <troupe/backoff_supervisor.h>
#include <troupe/breaker.h>
#include <troupe/retry.h>

/* the system and its surroundings */
#include <troupe/deadletter.h>
#include <troupe/driven.h>
#include <troupe/event.h>
#include <troupe/port.h>
#include <troupe/shutdown.h>
#include <troupe/system.h>

/* seeing into it */
#include <troupe/counters.h>
#include <troupe/fsm.h>
#include <troupe/inspect.h>
#include <troupe/log.h>
#include <troupe/metrics.h>

#endif /* TROUPE_TROUPE_H */
