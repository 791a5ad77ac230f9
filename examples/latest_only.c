/* SPDX-License-Identifier: MIT */
/*
 * A mailbox of one's own: of each instrument only the newest reading waits. A
 * display that looks once in a while sees what is true now, and what waits for
 * it is never more than one reading per instrument.
 */
#include <troupe/troupe.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TAG_READING = 1, TAG_ALARM };
enum { INSTRUMENTS = 3, ROUNDS = 1000 };

struct reading {
    uint32_t instrument;
    uint32_t value;
};

TROUPE_MSG_TYPE(reading, struct reading, TAG_READING);
TROUPE_MSG_TYPE_WITH(
    alarm, struct reading, TAG_ALARM, TROUPE_MSG_UNDROPPABLE, NULL);

/* --- the mailbox ---------------------------------------------------------- */

struct latest {
    troupe_msg *newest[INSTRUMENTS];
    troupe_msg **always; /* undroppable ones, and whatever is no reading */
    size_t first;
    size_t count;
    size_t capacity;
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
    struct latest *latest = box;

    free(latest->always);
    free(latest);
}

/* No bound here: these must not be lost. */
static troupe_status
latest_enqueue_undroppable(void *box, troupe_msg *msg)
{
    struct latest *latest = box;

    if (latest->first + latest->count == latest->capacity) {
        size_t capacity = 2 * latest->count + 8;
        troupe_msg **always = calloc(capacity, sizeof(troupe_msg *));

        if (always == NULL) {
            return TROUPE_E_NOMEM; /* the sender keeps it */
        }
        if (latest->count != 0) {
            memcpy(always, latest->always + latest->first,
                latest->count * sizeof(troupe_msg *));
        }
        free(latest->always);
        latest->always = always;
        latest->first = 0;
        latest->capacity = capacity;
    }
    latest->always[latest->first + latest->count++] = msg;
    return TROUPE_OK;
}

/* Where a reading waits; NULL: it is none. */
static troupe_msg **
place_of(struct latest *latest, const troupe_msg *msg)
{
    const struct reading *what;

    if (!troupe_msg_is(msg, &reading)) {
        return NULL;
    }
    what = troupe_payload(msg, struct reading);
    return &latest->newest[what->instrument % INSTRUMENTS];
}

/* The older one goes; the library counts it as dropped. */
static troupe_status
latest_enqueue(void *box, troupe_msg *msg, troupe_msg **evicted)
{
    troupe_msg **place = place_of(box, msg);

    if (place == NULL) {
        return latest_enqueue_undroppable(box, msg);
    }
    *evicted = *place;
    *place = msg;
    return TROUPE_OK;
}

/* From the stash: if a newer one waits, then what comes back goes. */
static troupe_status
latest_prepend(void *box, troupe_msg *msg, troupe_msg **evicted)
{
    troupe_msg **place = place_of(box, msg);

    if (place == NULL) {
        return latest_enqueue_undroppable(box, msg);
    }
    if (*place != NULL) {
        *evicted = msg;
    } else {
        *place = msg;
    }
    return TROUPE_OK;
}

static troupe_msg *
latest_dequeue(void *box)
{
    struct latest *latest = box;

    if (latest->count != 0) {
        latest->count--;
        return latest->always[latest->first++];
    }
    for (size_t i = 0; i < INSTRUMENTS; i++) {
        troupe_msg *msg = latest->newest[i];

        if (msg != NULL) {
            latest->newest[i] = NULL;
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

    for (size_t i = 0; i < INSTRUMENTS; i++) {
        length += latest->newest[i] != NULL;
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
    .prepend = latest_prepend,
    .dequeue = latest_dequeue,
    .length = latest_length,
};

/* --- the display ---------------------------------------------------------- */

static troupe_verdict
display_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    const struct reading *what;

    (void)self;
    (void)state;
    if (!troupe_msg_is(msg, &reading) && !troupe_msg_is(msg, &alarm)) {
        return TROUPE_UNHANDLED;
    }
    what = troupe_payload(msg, struct reading);
    printf("%s: instrument %u at %u\n", msg->type->name,
        (unsigned)what->instrument, (unsigned)what->value);
    return TROUPE_CONTINUE;
}

static const troupe_mailbox_options display_mailbox = {
    .size = TROUPE_OPTIONS(troupe_mailbox_options),
    .custom = &latest_only,
};
static const troupe_spawn_options display_defaults = {
    .size = TROUPE_OPTIONS(troupe_spawn_options),
    .mailbox = &display_mailbox,
};
static const troupe_actor_type display_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "display",
    .receive = display_receive,
    .defaults = &display_defaults,
};

/* --- main ----------------------------------------------------------------- */

/* While the display does not look: it is driven, and we do not run it. */
static troupe_status
measure(troupe_system *system, troupe_ref display)
{
    troupe_status status = TROUPE_OK;

    for (uint32_t i = 1; i <= ROUNDS && status == TROUPE_OK; i++) {
        for (uint32_t k = 0; k < INSTRUMENTS && status == TROUPE_OK; k++) {
            const struct reading what = {k, i * (k + 1)};

            status = troupe_post(system, display, &reading, &what);
            if (status == TROUPE_OK && what.value == ROUNDS) {
                status = troupe_post(system, display, &alarm, &what);
            }
        }
    }
    return status;
}

static troupe_status
run(troupe_system *system)
{
    troupe_counters counters = TROUPE_INIT(troupe_counters);
    troupe_ref display;
    troupe_status status =
        troupe_system_spawn(system, &display_type, NULL, &display);

    if (status == TROUPE_OK) {
        status = measure(system, display);
    }
    if (status == TROUPE_OK) {
        printf("%u wait\n", (unsigned)troupe_depth(system, display));
        status = troupe_system_run(system, 0, NULL);
    }
    if (status == TROUPE_OK) {
        status = troupe_counters_read(system, &counters);
    }
    if (status == TROUPE_OK) {
        printf("%llu sent, %llu handled, %llu dropped\n",
            (unsigned long long)counters.sent,
            (unsigned long long)counters.handled,
            (unsigned long long)counters.dropped);
    }
    return status;
}

int
main(void)
{
    troupe_system_options options = TROUPE_INIT(troupe_system_options);
    troupe_system *system = NULL;
    char why[160];
    troupe_status status;

    options.flags = TROUPE_SYSTEM_DRIVEN;
    status = troupe_system_create(&options, &system);
    if (status == TROUPE_OK) {
        status = run(system);
    }
    if (status != TROUPE_OK) {
        troupe_explain(status, why, sizeof why);
        fprintf(stderr, "latest_only: %s\n", why);
    }
    troupe_system_destroy(system);
    return status == TROUPE_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
