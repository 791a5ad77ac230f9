/* SPDX-License-Identifier: MIT */
#include <troupe/testkit.h>

#include <inttypes.h>
#include <stdio.h>

/* Exported by libtroupe for this library alone. */
TROUPE_API void troupe_private_fail_allocation(
    troupe_system *system, uint64_t nth);

bool
troupe_books_balance(troupe_system *system)
{
    troupe_counters counters = TROUPE_INIT(troupe_counters);
    troupe_status status = troupe_counters_read(system, &counters);
    uint64_t found;

    if (status != TROUPE_OK) {
        (void)fprintf(
            stderr, "troupe_books_balance: %s\n", troupe_status_text(status));
        return false;
    }
    found = counters.handled + counters.dropped + counters.dead +
            counters.cancelled + counters.refused + counters.queued;
    if (found == counters.sent) {
        return true;
    }
    (void)fprintf(stderr,
        "troupe_books_balance: sent %" PRIu64 ", but handled %" PRIu64
        " + dropped %" PRIu64 " + dead %" PRIu64 " + cancelled %" PRIu64
        " + refused %" PRIu64 " + queued %" PRIu64 " = %" PRIu64 ": %" PRIu64
        " %s\n",
        counters.sent, counters.handled, counters.dropped, counters.dead,
        counters.cancelled, counters.refused, counters.queued, found,
        found < counters.sent ? counters.sent - found : found - counters.sent,
        found < counters.sent ? "missing" : "too many");
    return false;
}

void
troupe_fail_allocation(troupe_system *system, uint64_t nth)
{
    troupe_private_fail_allocation(system, nth);
}
