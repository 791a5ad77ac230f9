/* SPDX-License-Identifier: MIT */

/* Rows with one actor in the middle that all the others talk to. */

#include "rows.h"

/* --- chameneos: meetings of 100 creatures in one mall -----------------------
 */

enum { CHAMENEOS = 100, COLOURS = 3 };

/* A meet is forwarded by the mall, so its sender is the creature to answer. */
TROUPE_MSG_TYPE(meet_message, int32_t, 10);
TROUPE_MSG_TYPE(change_message, int32_t, 11);
TROUPE_MSG_TYPE_EMPTY(fade_message, 12);
TROUPE_MSG_TYPE(faded_message, int64_t, 13);

struct chameneo {
    troupe_ref mall;
    int32_t colour;
    int32_t reserved;
    int64_t meetings;
};

static int32_t
complement(int32_t a, int32_t b)
{
    return a == b ? a : COLOURS - a - b;
}

static void
meet_again(troupe_self *self, const struct chameneo *me)
{
    troupe_tell(self, me->mall, &meet_message, &me->colour);
}

static troupe_status
chameneo_start(troupe_self *self, void *state, const void *arg)
{
    struct chameneo *me = state;

    me->mall = troupe_parent(self);
    me->colour = *(const int32_t *)arg;
    meet_again(self, me);
    return TROUPE_OK;
}

static troupe_verdict
chameneo_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct chameneo *me = state;

    if (troupe_msg_is(msg, &fade_message)) {
        troupe_reply(self, &faded_message, &me->meetings);
        return TROUPE_DONE;
    }
    if (troupe_msg_is(msg, &meet_message)) {
        me->colour = complement(me->colour, *troupe_payload(msg, int32_t));
        troupe_reply(self, &change_message, &me->colour);
    } else {
        me->colour = *troupe_payload(msg, int32_t);
    }
    me->meetings++;
    meet_again(self, me);
    return TROUPE_CONTINUE;
}

static const troupe_actor_type chameneo_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "chameneo",
    .state_bytes = sizeof(struct chameneo),
    .receive = chameneo_receive,
    .start = chameneo_start,
};

struct mall {
    int64_t left;
    int64_t faded;
    int64_t meetings;
    troupe_ref waiting;
};

static void
mall_open(troupe_self *self)
{
    for (int32_t i = 0; i < CHAMENEOS; i++) {
        int32_t colour = i % COLOURS;
        troupe_ref creature = TROUPE_NONE;
        troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);

        options.arg = &colour;
        options.arg_bytes = sizeof colour;
        bench_must(troupe_spawn(self, &chameneo_type, &options, &creature),
            "spawn of a chameneo");
    }
}

static void
mall_meet(troupe_self *self, struct mall *mall)
{
    if (mall->left == 0) {
        troupe_reply(self, &fade_message, NULL);
    } else if (troupe_ref_is_none(mall->waiting)) {
        mall->waiting = troupe_sender(self);
    } else {
        troupe_forward(self, mall->waiting);
        mall->waiting = TROUPE_NONE;
        mall->left--;
    }
}

static troupe_verdict
mall_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct mall *mall = state;

    if (troupe_msg_is(msg, &meet_message)) {
        mall_meet(self, mall);
        return TROUPE_CONTINUE;
    }
    if (troupe_msg_is(msg, &bench_number)) {
        mall->left = *troupe_payload(msg, int64_t);
        mall_open(self);
        return TROUPE_CONTINUE;
    }
    mall->meetings += *troupe_payload(msg, int64_t);
    if (++mall->faded == CHAMENEOS) {
        bench_done(self, mall->meetings);
    }
    return TROUPE_CONTINUE;
}

static const troupe_actor_type mall_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "mall",
    .state_bytes = sizeof(struct mall),
    .receive = mall_receive,
};

void
bench_chameneos(struct bench *bench)
{
    int64_t meetings = bench_scaled(bench, 2000000);
    troupe_ref mall = bench_spawn(bench, &mall_type, NULL, 0);

    bench_begin(bench);
    bench_post_number(bench, mall, meetings);
    bench_expect(bench_wait(bench) == 2 * meetings, "number of meetings");
    bench->must_end = CHAMENEOS;
    bench->result.messages = 4 * (uint64_t)meetings;
}

/* --- dict: 20 clients and one dictionary ------------------------------------
 */

enum { CLIENTS = 20, KEYS = 4096, SLOTS = 2 * KEYS, WRITE_PERCENT = 10 };

TROUPE_MSG_TYPE(read_message, int64_t, 30);

struct entry {
    int64_t key;
    int64_t value;
};
TROUPE_MSG_TYPE(write_message, struct entry, 31);

/* A hash table with open addressing; key -1 is a free slot. */
static struct entry table[SLOTS];
static troupe_ref dictionary;

static struct entry *
find(int64_t key)
{
    uint64_t slot = ((uint64_t)key * UINT64_C(0x9E3779B97F4A7C15)) >> 51;

    while (table[slot].key != key && table[slot].key != -1) {
        slot = (slot + 1) % SLOTS;
    }
    return &table[slot];
}

static troupe_verdict
dictionary_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)state;
    if (troupe_msg_is(msg, &read_message)) {
        troupe_reply(
            self, &bench_number, &find(*troupe_payload(msg, int64_t))->value);
    } else {
        const struct entry *write = troupe_payload(msg, struct entry);
        struct entry *entry = find(write->key);

        *entry = *write;
        troupe_reply(self, &bench_number, &entry->value);
    }
    return TROUPE_CONTINUE;
}

static const troupe_actor_type dictionary_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "dictionary",
    .receive = dictionary_receive,
};

struct client {
    uint64_t random;
    int64_t left;
    int64_t replies;
    int64_t written; /* what the next reply must be; -1 after a read */
};

static troupe_status
client_start(troupe_self *self, void *state, const void *arg)
{
    (void)self;
    *(struct client *)state = *(const struct client *)arg;
    return TROUPE_OK;
}

static void
client_ask(troupe_self *self, struct client *client)
{
    struct entry entry = {.key = bench_random(&client->random, KEYS)};

    if (bench_random(&client->random, 100) < WRITE_PERCENT) {
        entry.value = client->written = client->left;
        troupe_tell(self, dictionary, &write_message, &entry);
    } else {
        client->written = -1;
        troupe_tell(self, dictionary, &read_message, &entry.key);
    }
}

static troupe_verdict
client_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct client *client = state;

    if (troupe_msg_is(msg, &bench_number)) {
        int64_t value = *troupe_payload(msg, int64_t);

        bench_expect(client->written == -1 || client->written == value,
            "the dictionary has answered with another value");
        client->replies++;
    }
    if (client->left-- == 0) {
        bench_count_down(self, client->replies);
        return TROUPE_DONE;
    }
    client_ask(self, client);
    return TROUPE_CONTINUE;
}

static const troupe_actor_type client_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "client",
    .state_bytes = sizeof(struct client),
    .receive = client_receive,
    .start = client_start,
};

void
bench_dict(struct bench *bench)
{
    struct client work = {.left = bench_scaled(bench, 100000)};
    troupe_ref clients[CLIENTS];

    for (int i = 0; i < SLOTS; i++) {
        table[i].key = -1;
    }
    for (int64_t key = 0; key < KEYS; key++) {
        *find(key) = (struct entry){key, key};
    }
    dictionary = bench_spawn(bench, &dictionary_type, NULL, 0);
    bench_count_down_from(CLIENTS);
    for (int i = 0; i < CLIENTS; i++) {
        work.random = bench_random_seed((uint64_t)i + 1);
        clients[i] = bench_spawn(bench, &client_type, &work, sizeof work);
    }
    bench_begin(bench);
    for (int i = 0; i < CLIENTS; i++) {
        bench_post_go(bench, clients[i]);
    }
    bench_expect(bench_wait(bench) == CLIENTS * work.left, "replies");
    bench->must_end = CLIENTS;
    bench->result.messages = UINT64_C(2) * CLIENTS * (uint64_t)work.left;
}
