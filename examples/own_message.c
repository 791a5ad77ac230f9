/* SPDX-License-Identifier: MIT */
/*
 * Messages that own something: a document's text is made once and never
 * copied, however often the message changes hands. One rule: a call that takes
 * a `troupe_msg *` owns it if and only if it returns TROUPE_OK. Whoever has it
 * last frees it; the type's drop function then frees what it owns, also when
 * the message ends as a dead letter.
 */
#include <troupe/troupe.h>

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TAG_DOCUMENT = 1, TAG_FLUSH, SHELF = 4 };

struct document {
    char *text; /* malloc'ed, the message's own */
};

static atomic_int dropped; /* drops run on any thread */

static void
drop_document(void *payload, size_t bytes)
{
    struct document *document = payload;

    (void)bytes;
    free(document->text);
    atomic_fetch_add(&dropped, 1);
}

TROUPE_MSG_TYPE_WITH(
    document_type, struct document, TAG_DOCUMENT, 0, drop_document);
TROUPE_MSG_TYPE_EMPTY(flush, TAG_FLUSH);

/* Keeps what it gets until it is told to print. */
struct archive {
    troupe_msg *shelf[SHELF];
    size_t count;
};

static troupe_verdict
archive_flush(troupe_self *self, struct archive *archive)
{
    for (size_t i = 0; i < archive->count; i++) {
        printf(
            "%s\n", troupe_payload(archive->shelf[i], struct document)->text);
        troupe_msg_free(archive->shelf[i]);
    }
    archive->count = 0;
    troupe_system_request_stop(troupe_self_system(self));
    return TROUPE_CONTINUE;
}

static troupe_verdict
archive_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct archive *archive = state;

    switch (troupe_msg_tag(msg)) {
    case TAG_DOCUMENT: /* take: the message outlives this call */
        if (archive->count == SHELF ||
            troupe_take(self, &archive->shelf[archive->count]) != TROUPE_OK) {
            return TROUPE_CONTINUE; /* not taken, so dropped after this */
        }
        archive->count++;
        return TROUPE_CONTINUE;
    case TAG_FLUSH:
        return archive_flush(self, archive);
    default:
        return TROUPE_UNHANDLED;
    }
}

static void
archive_stop(troupe_self *self, void *state, const troupe_exit *why)
{
    struct archive *archive = state;

    (void)self;
    (void)why;
    for (size_t i = 0; i < archive->count; i++) {
        troupe_msg_free(archive->shelf[i]);
    }
}

static const troupe_actor_type archive_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "archive",
    .state_bytes = sizeof(struct archive),
    .receive = archive_receive,
    .stop = archive_stop,
};

/* Passes everything on but documents marked as secret, and changes nothing. */
static troupe_verdict
censor_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    const troupe_ref *archive = state;

    if (troupe_msg_is(msg, &document_type) &&
        strncmp(troupe_payload(msg, struct document)->text, "secret", 6) == 0) {
        return TROUPE_UNHANDLED; /* a dead letter, dropped as all of them */
    }
    troupe_forward(self, *archive); /* no copy, same sender */
    return TROUPE_CONTINUE;
}

static troupe_status
censor_start(troupe_self *self, void *state, const void *arg)
{
    (void)arg;
    return troupe_spawn(self, &archive_type, NULL, state);
}

static const troupe_actor_type censor_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "censor",
    .state_bytes = sizeof(troupe_ref),
    .receive = censor_receive,
    .start = censor_start,
};

static troupe_status
send_document(troupe_system *system, troupe_ref to, const char *text)
{
    troupe_msg *msg = troupe_msg_new(system, &document_type, 0);
    troupe_status status;

    if (msg == NULL) {
        return TROUPE_E_NOMEM;
    }
    troupe_payload_mut(msg, struct document)->text = strdup(text);
    status = troupe_post_msg(system, to, msg);
    if (status != TROUPE_OK) {
        troupe_msg_free(msg); /* refused, so still ours */
    }
    return status;
}

int
main(void)
{
    static const char *const texts[] = {"first", "secret plan", "second"};
    troupe_system *system;
    troupe_ref censor;

    if (troupe_system_create(NULL, &system) != TROUPE_OK ||
        troupe_system_spawn(system, &censor_type, NULL, &censor) != TROUPE_OK) {
        return 1;
    }
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (send_document(system, censor, texts[i]) != TROUPE_OK) {
            return 1;
        }
    }
    if (troupe_post(system, censor, &flush, NULL) != TROUPE_OK ||
        troupe_system_wait(system, TROUPE_S(10)) != TROUPE_OK ||
        troupe_system_destroy(system) != TROUPE_OK) {
        return 1;
    }
    printf("made 3, dropped %d\n", atomic_load(&dropped));
    return 0;
}
