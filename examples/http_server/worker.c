/* SPDX-License-Identifier: MIT */
#include "worker.h"

#include "messages.h"
#include "stats.h"

#include <sodium.h>
#include <stdio.h>
#include <time.h>

struct worker {
    const struct server *server;
};

static void
reply_text(
    troupe_self *self, struct ticket ticket, uint16_t status, const char *text)
{
    struct answer answer = {.ticket = ticket, .status = status};
    int length = snprintf(answer.text, sizeof answer.text, "%s\n", text);

    answer.length = (uint16_t)length;
    troupe_reply(self, &answer_type, &answer);
}

static uint64_t
thread_cpu_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* CPU time, not wall time: a worker that is preempted does all of its work. */
static void
do_work(troupe_self *self, const struct work_request *work)
{
    uint64_t until = thread_cpu_ns() + TROUPE_US(work->us);
    uint64_t number = work->us;
    char text[64];

    while (thread_cpu_ns() < until) {
        for (int i = 0; i < 100; i++) {
            number = number * 6364136223846793005u + 1442695040888963407u;
        }
    }
    snprintf(text, sizeof text, "worked %u us: %08x", work->us,
        (unsigned)(number >> 32));
    reply_text(self, work->ticket, 200, text);
}

static void
do_hash(troupe_self *self, const struct hash_request *hash)
{
    unsigned char digest[crypto_hash_sha256_BYTES];
    char hex[2 * sizeof digest + 1];

    crypto_hash_sha256(digest, (const unsigned char *)hash->body, hash->bytes);
    sodium_bin2hex(hex, sizeof hex, digest, sizeof digest);
    reply_text(self, hash->ticket, 200, hex);
}

static void
do_stats(troupe_self *self, const struct worker *worker, struct ticket ticket)
{
    struct long_answer answer = {.ticket = ticket, .status = 200};

    answer.text = stats_text(worker->server, &answer.length);
    if (answer.text == NULL) {
        reply_text(self, ticket, 500, "500 out of memory");
        return;
    }
    troupe_reply(self, &long_answer_type, &answer); /* the text goes along */
}

static troupe_verdict
worker_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    switch (troupe_msg_tag(msg)) {
    case TAG_HELLO:
        reply_text(self, troupe_payload(msg, struct hello_request)->ticket, 200,
            "hello from an actor");
        return TROUPE_CONTINUE;
    case TAG_WORK:
        do_work(self, troupe_payload(msg, struct work_request));
        return TROUPE_CONTINUE;
    case TAG_HASH:
        do_hash(self, troupe_payload(msg, struct hash_request));
        return TROUPE_CONTINUE;
    case TAG_STATS:
        do_stats(
            self, state, troupe_payload(msg, struct stats_request)->ticket);
        return TROUPE_CONTINUE;
    default:
        return TROUPE_UNHANDLED;
    }
}

static troupe_status
worker_start(troupe_self *self, void *state, const void *arg)
{
    struct worker *worker = state;

    (void)self;
    worker->server = ((const struct worker_arg *)arg)->server;
    return TROUPE_OK;
}

const troupe_actor_type worker_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "http_worker",
    .state_bytes = sizeof(struct worker),
    .receive = worker_receive,
    .start = worker_start,
};
