/* SPDX-License-Identifier: MIT */
#ifndef HTTP_MESSAGES_H
#define HTTP_MESSAGES_H

/* Everything that goes between the acceptor, the loops and the actors. */

#include <troupe/message.h>

#include <stdlib.h>
#include <unistd.h>

enum message_tag {
    TAG_HELLO = 1, /* loop to actor: the requests */
    TAG_WORK,
    TAG_HASH,
    TAG_STATS,
    TAG_ANSWER, /* actor to the port of the loop that asked */
    TAG_LONG_ANSWER,
    TAG_ACCEPTED, /* acceptor to the port of a loop */
    TAG_STOP
};

/* Who waits for an answer. Plain numbers: see slots.h. */
struct ticket {
    uint32_t slot;
    uint32_t generation;
    uint32_t serial; /* of the request, within its connection */
};

struct hello_request {
    struct ticket ticket;
};

struct work_request {
    struct ticket ticket;
    uint32_t us;
};

struct hash_request {
    struct ticket ticket;
    uint32_t reserved;
    char *body; /* malloc'ed, the message's own */
    size_t bytes;
};

struct stats_request {
    struct ticket ticket;
};

enum { ANSWER_TEXT = 80 };

struct answer {
    struct ticket ticket;
    uint16_t status; /* of HTTP */
    uint16_t length;
    char text[ANSWER_TEXT];
};

struct long_answer {
    struct ticket ticket;
    uint32_t status;
    char *text; /* malloc'ed, the message's own; JSON */
    size_t length;
};

struct accepted {
    int fd; /* the message's own; -1 = taken out */
};

static inline void
drop_hash_request(void *payload, size_t bytes)
{
    struct hash_request *request = payload;

    (void)bytes;
    free(request->body);
}

static inline void
drop_long_answer(void *payload, size_t bytes)
{
    struct long_answer *answer = payload;

    (void)bytes;
    free(answer->text);
}

static inline void
drop_accepted(void *payload, size_t bytes)
{
    struct accepted *accepted = payload;

    (void)bytes;
    if (accepted->fd >= 0) {
        close(accepted->fd);
    }
}

TROUPE_MSG_TYPE(hello_request_type, struct hello_request, TAG_HELLO);
TROUPE_MSG_TYPE(work_request_type, struct work_request, TAG_WORK);
TROUPE_MSG_TYPE_WITH(
    hash_request_type, struct hash_request, TAG_HASH, 0, drop_hash_request);
TROUPE_MSG_TYPE(stats_request_type, struct stats_request, TAG_STATS);
TROUPE_MSG_TYPE(answer_type, struct answer, TAG_ANSWER);
TROUPE_MSG_TYPE_WITH(
    long_answer_type, struct long_answer, TAG_LONG_ANSWER, 0, drop_long_answer);
TROUPE_MSG_TYPE_WITH(
    accepted_type, struct accepted, TAG_ACCEPTED, 0, drop_accepted);
TROUPE_MSG_TYPE_EMPTY(stop_type, TAG_STOP);

#endif /* HTTP_MESSAGES_H */
