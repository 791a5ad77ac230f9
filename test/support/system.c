/* SPDX-License-Identifier: MIT */
#include "support/system.h"

#include "support/await.h"
#include "support/census.h"

#include <troupe/testkit.h>

#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct test_alloc test_memory;
struct test_letters test_letters;

static struct test_census before;
static bool has_census;

static uint64_t
number_of(const void *payload, size_t bytes)
{
    uint64_t number = 0;

    if (payload != NULL && bytes >= sizeof number) {
        memcpy(&number, payload, sizeof number);
    }
    return number;
}

/* --- the system ----------------------------------------------------------- */

troupe_system_options
test_options(void)
{
    troupe_system_options options = TROUPE_INIT(troupe_system_options);

    options.flags = TROUPE_SYSTEM_IGNORE_ENV;
    options.log.max_level = TROUPE_LOG_OFF;
    options.dead_letter.fn = test_dead_letter;
    options.dead_letter.user = &test_letters;
    options.alloc = test_alloc;
    options.free = test_free;
    options.alloc_user = &test_memory;
    return options;
}

troupe_system *
test_open(const troupe_system_options *options)
{
    troupe_system *system = NULL;
    troupe_status status;

    if (!has_census) {
        before = test_census();
        has_census = true;
    }
    status = troupe_system_create(options, &system);
    if (status != TROUPE_OK) {
        char text[256];

        (void)troupe_explain(status, text, sizeof text);
        test_fail(__FILE__, __LINE__, text);
    }
    return system;
}

troupe_system *
test_open_driven(uint64_t seed)
{
    troupe_system_options options = test_options();

    options.flags |= TROUPE_SYSTEM_DRIVEN;
    options.seed = seed;
    return test_open(&options);
}

troupe_system *
test_open_threads(uint32_t workers)
{
    troupe_system_options options = test_options();

    options.workers = workers;
    return test_open(&options);
}

void
test_run(troupe_system *system)
{
    troupe_status status = troupe_system_run(system, 0, NULL);

    test_require(status == TROUPE_OK || status == TROUPE_E_CLOSED);
}

void
test_close(troupe_system *system)
{
    test_require(troupe_system_stop(system) == TROUPE_OK);
    test_require(troupe_books_balance(system));
    test_require(test_counters(system).queued == 0);
    test_require(test_counters(system).actors == 0);
    test_require(troupe_system_destroy(system) == TROUPE_OK);
    test_require(test_alloc_is_empty(&test_memory));
    test_require(test_census_is(before));
}

troupe_counters
test_counters(const troupe_system *system)
{
    troupe_counters counters = TROUPE_INIT(troupe_counters);

    test_require(troupe_counters_read(system, &counters) == TROUPE_OK);
    return counters;
}

int
test_in_child(int (*what)(void))
{
    int status = 0;
    pid_t child = fork();

    test_require(child >= 0);
    if (child == 0) {
        (void)alarm(600);
        _exit(what());
    }
    test_require(waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* --- dead letters --------------------------------------------------------- */

void
test_dead_letter(
    troupe_system *system, const troupe_dead_letter *letter, void *user)
{
    struct test_letters *letters = user;
    const troupe_msg *msg = letter->msg;

    (void)system;
    atomic_fetch_add(&letters->total, 1);
    atomic_fetch_add(&letters->by_reason[letter->reason & 15], 1);
    if (letters == &test_letters) {
        letters->last.reason = letter->reason;
        letters->last.recipient = letter->recipient;
        letters->last.sender = msg->sender;
        letters->last.tag = troupe_msg_tag(msg);
        letters->last.bytes = msg->bytes;
        letters->last.has_payload = msg->payload != NULL;
        letters->last.number = number_of(msg->payload, msg->bytes);
    }
}

/* --- messages ------------------------------------------------------------- */

void
test_drop(void *payload, size_t bytes)
{
    struct test_owned *owned = payload;

    test_require(bytes >= sizeof *owned);
    test_require(owned->drops != NULL);
    atomic_fetch_add(owned->drops, 1);
}

struct doing {
    test_do_fn what;
    void *user;
};

#define TYPE(symbol, payload_bytes, tag_, flags_, drop_)                       \
    const troupe_msg_type symbol = {.size = sizeof(troupe_msg_type),           \
        .name = #symbol,                                                       \
        .bytes = (payload_bytes),                                              \
        .tag = (tag_),                                                         \
        .flags = (flags_),                                                     \
        .drop = (drop_)}

TYPE(test_number, sizeof(uint64_t), TEST_TAG_NUMBER, 0, NULL);
TYPE(test_pair, sizeof(struct test_pair), TEST_TAG_PAIR, 0, NULL);
TYPE(test_empty, 0, TEST_TAG_EMPTY, 0, NULL);
TYPE(test_bytes, 0, TEST_TAG_BYTES, 0, NULL);
TYPE(test_owned, sizeof(struct test_owned), TEST_TAG_OWNED, 0, test_drop);
TYPE(test_large, sizeof(struct test_large), TEST_TAG_LARGE, 0, test_drop);
TYPE(test_shared, sizeof(struct test_large), TEST_TAG_SHARED, TROUPE_MSG_SHARED,
    test_drop);
TYPE(test_other, sizeof(uint64_t), TEST_TAG_OTHER, 0, NULL);
TROUPE_MSG_TYPE(do_type, struct doing, TEST_TAG_DO);

/* --- actors --------------------------------------------------------------- */

static troupe_status
start_recorder(troupe_self *self, void *state, const void *arg)
{
    struct test_record *record;

    (void)self;
    memcpy(&record, arg, sizeof record);
    memcpy(state, &record, sizeof record);
    record->started++;
    return TROUPE_OK;
}

static void
stop_recorder(troupe_self *self, void *state, const troupe_exit *why)
{
    struct test_record *record;

    (void)self;
    memcpy(&record, state, sizeof record);
    record->stopped++;
    record->exit = *why;
}

static troupe_verdict
record(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct test_record *record;

    (void)self;
    memcpy(&record, state, sizeof record);
    test_require(record->count < TEST_RECORDS);
    test_require((uintptr_t)msg->payload % 16 == 0);
    record->entry[record->count].tag = troupe_msg_tag(msg);
    record->entry[record->count].sender = msg->sender;
    record->entry[record->count].bytes = msg->bytes;
    record->entry[record->count].number = number_of(msg->payload, msg->bytes);
    record->count++;
    return record->answer;
}

const troupe_actor_type test_recorder = {.size = sizeof(troupe_actor_type),
    .name = "recorder",
    .state_bytes = sizeof(struct test_record *),
    .receive = record,
    .start = start_recorder,
    .stop = stop_recorder};

static troupe_spawn_options
recorder_options(const char *name, struct test_record **record)
{
    troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);

    options.name = name;
    options.arg = record;
    options.arg_bytes = sizeof *record;
    return options;
}

troupe_ref
test_spawn_recorder(
    troupe_system *system, const char *name, struct test_record *record)
{
    troupe_spawn_options options = recorder_options(name, &record);
    troupe_ref ref = TROUPE_NONE;

    test_require(troupe_system_spawn(system, &test_recorder, &options, &ref) ==
                 TROUPE_OK);
    return ref;
}

troupe_ref
test_spawn_recorder_with(troupe_system *system,
    const troupe_mailbox_options *mailbox, struct test_record *record)
{
    troupe_spawn_options options = recorder_options(NULL, &record);
    troupe_ref ref = TROUPE_NONE;

    options.mailbox = mailbox;
    test_require(troupe_system_spawn(system, &test_recorder, &options, &ref) ==
                 TROUPE_OK);
    return ref;
}

troupe_ref
test_spawn_recorder_below(
    troupe_self *self, const char *name, struct test_record *record)
{
    troupe_spawn_options options = recorder_options(name, &record);
    troupe_ref ref = TROUPE_NONE;

    test_require(
        troupe_spawn(self, &test_recorder, &options, &ref) == TROUPE_OK);
    return ref;
}

static troupe_verdict
do_it(troupe_self *self, void *state, const troupe_msg *msg)
{
    const struct doing *doing;

    (void)state;
    if (troupe_msg_tag(msg) != TEST_TAG_DO) {
        return TROUPE_CONTINUE;
    }
    doing = troupe_payload(msg, struct doing);
    test_require(doing != NULL);
    return doing->what(self, msg, doing->user);
}

static const troupe_actor_type doer = {.size = sizeof(troupe_actor_type),
    .name = "doer",
    .receive = do_it};

troupe_ref
test_spawn_doer(troupe_system *system, const char *name)
{
    troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);
    troupe_ref ref = TROUPE_NONE;

    options.name = name;
    test_require(
        troupe_system_spawn(system, &doer, &options, &ref) == TROUPE_OK);
    return ref;
}

static const troupe_supervision ends = {.size = sizeof(troupe_supervision),
    .otherwise = TROUPE_DIRECTIVE_STOP};

troupe_ref
test_spawn_mortal_doer(troupe_system *system)
{
    troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);
    troupe_ref ref = TROUPE_NONE;

    options.own = &ends;
    test_require(
        troupe_system_spawn(system, &doer, &options, &ref) == TROUPE_OK);
    return ref;
}

troupe_ref
test_spawn_mortal_recorder(troupe_system *system, struct test_record *record)
{
    troupe_spawn_options options = recorder_options(NULL, &record);
    troupe_ref ref = TROUPE_NONE;

    options.own = &ends;
    test_require(troupe_system_spawn(system, &test_recorder, &options, &ref) ==
                 TROUPE_OK);
    return ref;
}

troupe_ref
test_spawn_doer_with(
    troupe_system *system, const troupe_mailbox_options *mailbox)
{
    troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);
    troupe_ref ref = TROUPE_NONE;

    options.mailbox = mailbox;
    test_require(
        troupe_system_spawn(system, &doer, &options, &ref) == TROUPE_OK);
    return ref;
}

troupe_ref
test_spawn_doer_supervising(
    troupe_system *system, const troupe_spawn_options *options)
{
    troupe_ref ref = TROUPE_NONE;

    test_require(
        troupe_system_spawn(system, &doer, options, &ref) == TROUPE_OK);
    return ref;
}

troupe_ref
test_spawn_doer_below(troupe_self *self, const char *name)
{
    troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);
    troupe_ref ref = TROUPE_NONE;

    options.name = name;
    test_require(troupe_spawn(self, &doer, &options, &ref) == TROUPE_OK);
    return ref;
}

void
test_do_later(
    troupe_system *system, troupe_ref doer_ref, test_do_fn what, void *user)
{
    struct doing doing = {what, user};

    test_require(troupe_post(system, doer_ref, &do_type, &doing) == TROUPE_OK);
}

void
test_do(troupe_system *system, troupe_ref doer_ref, test_do_fn what, void *user)
{
    test_do_later(system, doer_ref, what, user);
    test_run(system);
}

troupe_verdict
test_ignore(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)self;
    (void)state;
    (void)msg;
    return TROUPE_CONTINUE;
}

const troupe_actor_type test_plain = {.size = sizeof(troupe_actor_type),
    .name = "plain",
    .receive = test_ignore};

static troupe_verdict
answer(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)state;
    troupe_reply(self, msg->type, msg->payload);
    return TROUPE_CONTINUE;
}

const troupe_actor_type test_echo = {.size = sizeof(troupe_actor_type),
    .name = "echo",
    .receive = answer};

static troupe_status
keep_stop(troupe_self *self, void *state, const void *arg)
{
    (void)self;
    memcpy(state, arg, sizeof(test_stop_fn));
    return TROUPE_OK;
}

static void
call_stop(troupe_self *self, void *state, const troupe_exit *why)
{
    test_stop_fn stop;

    memcpy(&stop, state, sizeof stop);
    stop(self, state, why);
}

static const troupe_actor_type with_stop = {.size = sizeof(troupe_actor_type),
    .name = "with_stop",
    .state_bytes = sizeof(test_stop_fn),
    .receive = test_ignore,
    .start = keep_stop,
    .stop = call_stop};

troupe_ref
test_spawn_with_stop(troupe_system *system, const char *name, test_stop_fn stop)
{
    troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);
    troupe_ref ref = TROUPE_NONE;

    options.name = name;
    options.arg = &stop;
    options.arg_bytes = sizeof stop;
    test_require(
        troupe_system_spawn(system, &with_stop, &options, &ref) == TROUPE_OK);
    test_run(system); /* or stop() is not called */
    return ref;
}

troupe_ref
test_dead_actor(troupe_system *system)
{
    troupe_ref ref = test_spawn_doer(system, NULL);

    test_require(troupe_post_stop(system, ref) == TROUPE_OK);
    test_run(system);
    return ref;
}

troupe_verdict
test_have_child(troupe_self *self, const troupe_msg *msg, void *user)
{
    (void)msg;
    *(troupe_ref *)user = test_spawn_doer_below(self, "child");
    return TROUPE_CONTINUE;
}

_Atomic uint64_t test_inside;
_Atomic uint64_t test_may_leave;

troupe_verdict
test_stay(troupe_self *self, const troupe_msg *msg, void *user)
{
    (void)self;
    (void)msg;
    (void)user;
    atomic_fetch_add(&test_inside, 1);
    test_require(test_await_at_least(&test_may_leave, 1));
    return TROUPE_CONTINUE;
}

void
test_post_number(troupe_system *system, troupe_ref to, uint64_t number)
{
    test_require(troupe_post(system, to, &test_number, &number) == TROUPE_OK);
}

void
test_post_numbers(troupe_system *system, troupe_ref to, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        test_post_number(system, to, i);
    }
}
