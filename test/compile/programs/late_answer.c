/* SPDX-License-Identifier: MIT */
/* A test of one's own actors: 1000 seeds, virtual time, no sleeping. */
#include <troupe/testkit.h>
#include <troupe/troupe.h>

#include <stdio.h>

enum { TAG_PING = 1, TAG_PONG, TAG_LATE };

TROUPE_MSG_TYPE_EMPTY(ping, TAG_PING);
TROUPE_MSG_TYPE_EMPTY(pong, TAG_PONG);
TROUPE_MSG_TYPE_EMPTY(late, TAG_LATE);

/* Answers after an hour. */
static troupe_verdict
slow_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    troupe_ref *asker = state;

    switch (troupe_msg_tag(msg)) {
    case TAG_PING:
        *asker = msg->sender;
        return troupe_check(
            self, troupe_timer_once(self, 1, &late, NULL, TROUPE_S(3600)));
    case TAG_LATE:
        troupe_tell(self, *asker, &pong, NULL);
        return TROUPE_DONE;
    default:
        return TROUPE_UNHANDLED;
    }
}

static const troupe_actor_type slow_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "slow",
    .state_bytes = sizeof(troupe_ref),
    .receive = slow_receive,
};

static bool
answers_once_and_dies(troupe_system *system, void *user)
{
    troupe_probe *probe = NULL;
    troupe_ref slow;
    bool good;

    (void)user;
    if (troupe_probe_open(system, "probe", &probe) != TROUPE_OK) {
        return false;
    }
    good = troupe_system_spawn(system, &slow_type, NULL, &slow) == TROUPE_OK &&
           troupe_probe_watch(probe, slow) == TROUPE_OK &&
           troupe_probe_send(probe, slow, &ping, NULL) == TROUPE_OK &&
           troupe_probe_silent(probe, TROUPE_S(3599)) &&
           troupe_probe_fish(probe, TAG_PONG, TROUPE_S(2)) != NULL &&
           troupe_probe_fish(probe, TROUPE_TAG_DOWN, TROUPE_S(1)) != NULL;
    troupe_probe_close(probe);
    return good && troupe_books_balance(system);
}

int
main(void)
{
    uint64_t bad = troupe_trials(NULL, 1, 1000, answers_once_and_dies, NULL);

    if (bad != 0) {
        fprintf(stderr, "run again with TROUPE_SEED=%llu\n",
            (unsigned long long)bad);
    }
    return bad == 0 ? 0 : 1;
}
