/* SPDX-License-Identifier: MIT */
#include "job.h"

/* What the programs of misuse/ get wrong, done right: compiles silently. */

static troupe_verdict
receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    const struct job *job = troupe_payload(msg, struct job);
    struct job *count = state;
    troupe_msg *kept;

    if (job == NULL) {
        return TROUPE_UNHANDLED;
    }
    count->n += job->n;
    troupe_tell(self, troupe_sender(self), &job_type, count);
    troupe_reply(self, &job_type, count);
    troupe_log(self, TROUPE_LOG_INFO, "%d", count->n);
    if (troupe_take(self, &kept) == TROUPE_OK) {
        if (troupe_send_msg(self, troupe_parent(self), kept) != TROUPE_OK) {
            troupe_msg_free(kept);
        }
    }
    return troupe_check(self, troupe_become_push(self, receive));
}

static const troupe_actor_type type = {.size = sizeof(troupe_actor_type),
    .name = "control",
    .state_bytes = sizeof(struct job),
    .receive = receive};

int
main(void)
{
    troupe_system_options options = TROUPE_INIT(troupe_system_options);
    troupe_system *system = NULL;
    troupe_ref ref = TROUPE_NONE;
    const struct job job = {1};

    options.log.max_level = TROUPE_LOG_OFF;
    options.steal = TROUPE_STEAL_ON;
    if (troupe_system_create(&options, &system) != TROUPE_OK ||
        troupe_system_spawn(system, &type, NULL, &ref) != TROUPE_OK ||
        troupe_post(system, ref, &job_type, &job) != TROUPE_OK) {
        return 1;
    }
    troupe_post_tell(system, ref, &job_type, &job);
    return troupe_system_destroy(system) == TROUPE_OK ? 0 : 1;
}
