/* SPDX-License-Identifier: MIT */
/* A mailbox of one's own: keeps only the newest message of each tag. */
#include <troupe/troupe.h>

#include <stdlib.h>

enum { KINDS = 16 };

struct latest {
    troupe_msg *kept[KINDS];
    troupe_msg *always[64]; /* undroppable ones, in order */
    size_t first;
    size_t count;
};

static void *
latest_open(void *user)
{
    (void)user;
    return calloc(1, sizeof(struct latest));
}

static void
latest_close(void *box)
{
    free(box);
}

static troupe_status
latest_enqueue(void *box, troupe_msg *msg, troupe_msg **evicted)
{
    struct latest *latest = box;
    troupe_tag kind = troupe_msg_tag(msg) % KINDS;

    *evicted = latest->kept[kind]; /* counted as a drop by the library */
    latest->kept[kind] = msg;
    return TROUPE_OK;
}

static troupe_status
latest_enqueue_undroppable(void *box, troupe_msg *msg)
{
    struct latest *latest = box;

    if (latest->count == 64) {
        return TROUPE_E_NOMEM;
    }
    latest->always[(latest->first + latest->count++) % 64] = msg;
    return TROUPE_OK;
}

static troupe_msg *
latest_dequeue(void *box)
{
    struct latest *latest = box;

    if (latest->count > 0) {
        troupe_msg *msg = latest->always[latest->first];

        latest->first = (latest->first + 1) % 64;
        latest->count--;
        return msg;
    }
    for (size_t kind = 0; kind < KINDS; kind++) {
        troupe_msg *msg = latest->kept[kind];

        if (msg != NULL) {
            latest->kept[kind] = NULL;
            return msg;
        }
    }
    return NULL;
}

static size_t
latest_length(const void *box)
{
    const struct latest *latest = box;
    size_t length = latest->count;

    for (size_t kind = 0; kind < KINDS; kind++) {
        length += latest->kept[kind] != NULL;
    }
    return length;
}

static const troupe_custom_mailbox latest_only = {
    .size = TROUPE_OPTIONS(troupe_custom_mailbox),
    .name = "latest-only",
    .open = latest_open,
    .close = latest_close,
    .enqueue = latest_enqueue,
    .enqueue_undroppable = latest_enqueue_undroppable,
    .prepend = latest_enqueue,
    .dequeue = latest_dequeue,
    .length = latest_length,
};

const troupe_mailbox_options latest_mailbox = {
    .size = TROUPE_OPTIONS(troupe_mailbox_options),
    .custom = &latest_only,
};
