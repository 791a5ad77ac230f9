/* SPDX-License-Identifier: MIT */

/*
 * A result from a thread of somebody else's library comes back as a promise.
 * The renderer asks the library for one image after another; while it waits, it
 * handles no other message, so the images come in order.
 */
#include <troupe/troupe.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { TAG_RENDER = 1, TAG_IMAGE };

struct size {
    uint32_t width;
    uint32_t height;
};

TROUPE_MSG_TYPE(render_message, struct size, TAG_RENDER);
TROUPE_MSG_TYPE(image_message, struct size, TAG_IMAGE);

/* --- the library ---------------------------------------------------------- */

struct job {
    troupe_system *system;
    troupe_ref promise;
    struct size size;
};

static void *
run_job(void *arg)
{
    struct job *job = arg;

    if (job->size.width == 0) {
        troupe_post_failure(job->system, job->promise, 17);
    } else {
        troupe_post_tell(job->system, job->promise, &image_message, &job->size);
    }
    free(job);
    return NULL;
}

static void
start_job(troupe_system *system, struct size size, troupe_ref promise)
{
    struct job *job = malloc(sizeof *job);
    pthread_t thread;

    if (job != NULL) {
        *job = (struct job){system, promise, size};
        if (pthread_create(&thread, NULL, run_job, job) == 0) {
            pthread_detach(thread);
            return;
        }
        free(job);
    }
    troupe_post_failure(system, promise, TROUPE_E_NOMEM);
}

/* --- the actor ------------------------------------------------------------ */

static troupe_verdict
on_image(
    troupe_self *self, void *state, const troupe_result *result, void *user)
{
    (void)state;
    (void)user;
    if (result->status == TROUPE_OK) {
        troupe_reply(
            self, &image_message, troupe_payload(result->msg, struct size));
    } else {
        troupe_reply_failure(self, result->code);
    }
    return TROUPE_CONTINUE;
}

static troupe_verdict
renderer_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    troupe_ref promise = TROUPE_NONE;
    troupe_ticket ticket = {0};
    troupe_status status;

    (void)state;
    if (troupe_msg_tag(msg) != TAG_RENDER) {
        return TROUPE_UNHANDLED;
    }
    status = troupe_promise(
        self, TROUPE_S(30), troupe_then(on_image, NULL), &promise, &ticket);
    if (status == TROUPE_OK) {
        start_job(troupe_self_system(self), *troupe_payload(msg, struct size),
            promise);
    }
    return troupe_await(self, status, &ticket);
}

static const troupe_actor_type renderer_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "renderer",
    .receive = renderer_receive,
};

/* --- main ----------------------------------------------------------------- */

static void
render(troupe_system *system, troupe_ref renderer, struct size size)
{
    troupe_answer answer;
    troupe_status status = troupe_ask_wait(system, renderer, &render_message,
        &size, TROUPE_TIMEOUT_DEFAULT, &answer);

    if (status == TROUPE_OK) {
        const struct size *image = troupe_payload(answer.reply, struct size);

        printf("%u x %u\n", image->width, image->height);
    } else {
        printf("%s, code %d\n", troupe_status_text(status), (int)answer.code);
    }
    troupe_msg_free(answer.reply);
}

int
main(void)
{
    troupe_system *system = NULL;
    troupe_ref renderer = TROUPE_NONE;
    troupe_status status = troupe_system_create(NULL, &system);

    if (status == TROUPE_OK) {
        status = troupe_system_spawn(system, &renderer_type, NULL, &renderer);
    }
    if (status == TROUPE_OK) {
        render(system, renderer, (struct size){640, 480});
        render(system, renderer, (struct size){0, 0});
    } else {
        fprintf(stderr, "foreign_result: %s\n", troupe_status_text(status));
    }
    troupe_system_destroy(system);
    return status == TROUPE_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
