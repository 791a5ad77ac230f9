/* SPDX-License-Identifier: MIT */
/*
 * A test of one's own actors: 1000 runs, each with another order of turns, no
 * threads and no sleeping. A run that fails can be repeated with its seed.
 *
 * Under test: a till that tellers add to in two steps, read and then write
 * back. The lost update is prevented by a version number; without the check in
 * till_receive() the test fails within a few seeds.
 */
#include <troupe/testkit.h>
#include <troupe/troupe.h>

#include <inttypes.h>
#include <stdio.h>

enum { TAG_READ = 1, TAG_SUM, TAG_WRITE, TAG_STALE, TELLERS = 4, DEPOSITS = 5 };

struct sum {
    uint32_t cents;
    uint32_t version;
};

TROUPE_MSG_TYPE_EMPTY(read_it, TAG_READ);
TROUPE_MSG_TYPE(sum, struct sum, TAG_SUM);
TROUPE_MSG_TYPE(write_it, struct sum, TAG_WRITE);
TROUPE_MSG_TYPE(stale, struct sum, TAG_STALE); /* try again from here */

static troupe_verdict
till_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct sum *till = state;
    const struct sum *wanted;

    switch (troupe_msg_tag(msg)) {
    case TAG_READ:
        troupe_reply(self, &sum, till);
        return TROUPE_CONTINUE;
    case TAG_WRITE:
        wanted = troupe_payload(msg, struct sum);
        if (wanted->version != till->version) {
            troupe_reply(self, &stale, till);
            return TROUPE_CONTINUE;
        }
        till->cents = wanted->cents;
        till->version++;
        troupe_reply(self, &sum, till);
        return TROUPE_CONTINUE;
    default:
        return TROUPE_UNHANDLED;
    }
}

static const troupe_actor_type till_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "till",
    .state_bytes = sizeof(struct sum),
    .receive = till_receive,
};

struct teller {
    troupe_ref till;
    uint32_t done;
};

static troupe_status
teller_start(troupe_self *self, void *state, const void *arg)
{
    struct teller *teller = state;

    teller->till = *(const troupe_ref *)arg;
    return troupe_send(self, teller->till, &read_it, NULL);
}

/* Adds one cent to what it was told; the first answer is that to READ. */
static troupe_verdict
teller_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct teller *teller = state;
    struct sum next = *troupe_payload(msg, struct sum);

    teller->done += troupe_msg_is(msg, &sum);
    if (teller->done > DEPOSITS) {
        return TROUPE_DONE;
    }
    next.cents++;
    return troupe_check(
        self, troupe_send(self, teller->till, &write_it, &next));
}

static const troupe_actor_type teller_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "teller",
    .state_bytes = sizeof(struct teller),
    .receive = teller_receive,
    .start = teller_start,
};

static bool
spawn_tellers(troupe_system *system, troupe_ref till)
{
    troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);
    troupe_ref teller;

    options.arg = &till;
    options.arg_bytes = sizeof till;
    for (int i = 0; i < TELLERS; i++) {
        if (troupe_system_spawn(system, &teller_type, &options, &teller) !=
            TROUPE_OK) {
            return false;
        }
    }
    return troupe_system_await_idle(system, TROUPE_FOREVER) == TROUPE_OK;
}

static bool
no_cent_is_lost(troupe_system *system, void *user)
{
    troupe_probe *probe = NULL; /* an actor in the hands of the test */
    const troupe_msg *msg = NULL;
    troupe_ref till;
    bool good;

    (void)user;
    if (troupe_probe_open(system, "probe", &probe) != TROUPE_OK) {
        return false;
    }
    good = troupe_system_spawn(system, &till_type, NULL, &till) == TROUPE_OK &&
           spawn_tellers(system, till) &&
           troupe_probe_send(probe, till, &read_it, NULL) == TROUPE_OK &&
           (msg = troupe_probe_fish(probe, TAG_SUM, TROUPE_S(1))) != NULL &&
           troupe_payload(msg, struct sum)->cents == TELLERS * DEPOSITS;
    troupe_probe_close(probe);
    return good && troupe_books_balance(system);
}

int
main(void)
{
    uint64_t bad = troupe_trials(NULL, 1, 1000, no_cent_is_lost, NULL);

    if (bad != 0) {
        fprintf(stderr, "run again with TROUPE_SEED=%" PRIu64 "\n", bad);
        return 1;
    }
    puts("1000 seeds, no cent lost");
    return 0;
}
