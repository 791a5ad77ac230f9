/* SPDX-License-Identifier: MIT */

/* A result from a thread of somebody else's library comes back as a promise. */
#include <troupe/troupe.h>

#include <pthread.h>
#include <stdlib.h>

enum { TAG_RENDER = 1, TAG_IMAGE };

struct image {
    uint32_t width;
    uint32_t height;
};

TROUPE_MSG_TYPE(image, struct image, TAG_IMAGE);

struct job {
    troupe_system *system;
    troupe_ref promise;
};

static void *
render(void *arg)
{
    struct job *job = arg;
    const struct image done = {640, 480};

    troupe_post_tell(job->system, job->promise, &image, &done);
    free(job);
    return NULL;
}

static troupe_verdict
on_image(
    troupe_self *self, void *state, const troupe_result *result, void *user)
{
    (void)state;
    (void)user;
    if (result->status == TROUPE_OK) {
        troupe_reply(self, &image, troupe_payload(result->msg, struct image));
    } else {
        troupe_reply_failure(self, (int32_t)result->status);
    }
    return TROUPE_CONTINUE;
}

static troupe_verdict
renderer_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct job *job;
    pthread_t thread;
    troupe_status status;
    troupe_ticket ticket;

    (void)state;
    if (troupe_msg_tag(msg) != TAG_RENDER) {
        return TROUPE_UNHANDLED;
    }
    job = malloc(sizeof *job);
    if (job == NULL) {
        return troupe_fail(self, TROUPE_E_NOMEM);
    }
    job->system = troupe_self_system(self);
    status = troupe_promise(self, TROUPE_S(30), troupe_then(on_image, NULL),
        &job->promise, &ticket);
    if (status != TROUPE_OK) {
        free(job);
        return troupe_check(self, status);
    }
    if (pthread_create(&thread, NULL, render, job) != 0) {
        troupe_cancel(self, ticket); /* on_image answers for us */
        free(job);
        return TROUPE_CONTINUE;
    }
    pthread_detach(thread);
    return TROUPE_CONTINUE;
}

const troupe_actor_type renderer_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "renderer",
    .receive = renderer_receive,
};
