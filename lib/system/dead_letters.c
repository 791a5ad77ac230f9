/* SPDX-License-Identifier: MIT */
#include "system/dead_letters.h"

#include "actor/mailbox.h"
#include "actor/registry.h"
#include "base/align.h"
#include "base/options.h"
#include "system/events.h"
#include "system/system.h"

#include <stdio.h>
#include <string.h>

/* What happens to a message that nobody handled; then the calls. */

#define REPLAYS_DEFAULT 3
#define RETENTION_DEFAULT_NS (UINT64_C(3600) * 1000000000)
#define PATH_BYTES 4096 /* longer ones are cut */
#define LINE_PATH_BYTES 256

struct trp_letter {
    struct trp_letter *older, *newer; /* under lock */
    struct trp_letter *same_bucket;   /* under lock */
    struct trp_letter *next;          /* in a list of those to be freed */
    uint32_t holders;                 /* under lock: the store, visitors */
    uint32_t replays;
    uint64_t id;
    uint64_t arrival; /* grows with every arrival */
    uint64_t when_ns;
    struct trp_box *box; /* payload NULL: not kept */
    troupe_ref recipient;
    troupe_dead_reason reason;
    uint32_t sender_at; /* in paths */
    size_t bytes;       /* of all this */
    char paths[];       /* recipient, sender; each with its end */
};

/* --- paths ---------------------------------------------------------------- */

/* The path; of who has gone, the name that spells the ref; "" = nobody. */
static void
name_of(struct trp_core *core, troupe_ref ref, char *text, size_t bytes)
{
    text[0] = '\0';
    if (!troupe_ref_is_none(ref) &&
        trp_registry_path(core, ref, text, bytes) == 0) {
        snprintf(text, bytes, "$%x-%x", ref.index, ref.generation);
    }
}

/* Skips "troupe://name"; NULL: not a path of this system. */
static const char *
local_path(const struct trp_core *core, const char *path)
{
    size_t length = strlen(core->name);

    if (strncmp(path, "troupe://", 9) == 0) {
        path += 9;
        if (strncmp(path, core->name, length) != 0) {
            return NULL;
        }
        path += length;
    }
    return path[0] == '/' ? path : NULL;
}

/* --- the list and the table ----------------------------------------------- */

static struct trp_letter **
bucket_of(struct trp_dead_letters *store, uint64_t id)
{
    return &store->bucket[id & (store->buckets - 1)];
}

static struct trp_letter *
find_locked(struct trp_dead_letters *store, uint64_t id)
{
    struct trp_letter *letter = *bucket_of(store, id);

    while (letter != NULL && letter->id != id) {
        letter = letter->same_bucket;
    }
    return letter;
}

/* D1. Nearly always at the end. */
static void
link_locked(struct trp_dead_letters *store, struct trp_letter *letter)
{
    struct trp_letter **bucket = bucket_of(store, letter->id);
    struct trp_letter *older = store->newest;

    while (older != NULL && older->arrival > letter->arrival) {
        older = older->older;
    }
    letter->older = older;
    letter->newer = older != NULL ? older->newer : store->oldest;
    *(older != NULL ? &older->newer : &store->oldest) = letter;
    *(letter->newer != NULL ? &letter->newer->older : &store->newest) = letter;
    letter->same_bucket = *bucket;
    *bucket = letter;
    store->count++;
}

static void
unlink_locked(struct trp_dead_letters *store, struct trp_letter *letter)
{
    struct trp_letter **link = bucket_of(store, letter->id);

    while (*link != letter) {
        link = &(*link)->same_bucket;
    }
    *link = letter->same_bucket;
    *(letter->older != NULL ? &letter->older->newer : &store->oldest) =
        letter->newer;
    *(letter->newer != NULL ? &letter->newer->older : &store->newest) =
        letter->older;
    store->count--;
}

/* One holder less: the last one puts it into `gone`. */
static void
let_go_locked(struct trp_letter *letter, struct trp_letter **gone)
{
    if (--letter->holders == 0) {
        letter->next = *gone;
        *gone = letter;
    }
}

/* What is too old, or more than there is room for. */
static void
evict_locked(troupe_system *system, struct trp_letter **gone)
{
    struct trp_dead_letters *store = &system->dead_letters;
    uint64_t now_ns = troupe_now_ns(system);

    while (store->oldest != NULL &&
           (store->count > store->capacity ||
               (store->retention_ns != TROUPE_FOREVER &&
                   store->oldest->when_ns <= now_ns &&
                   now_ns - store->oldest->when_ns > store->retention_ns))) {
        struct trp_letter *letter = store->oldest;

        unlink_locked(store, letter);
        let_go_locked(letter, gone);
    }
}

/* No lock is held: what a payload owns is dropped. */
static void
free_all(struct trp_core *core, struct trp_letter *gone)
{
    struct trp_local *local = trp_local_here(core);

    while (gone != NULL) {
        struct trp_letter *next = gone->next;

        if (gone->box != NULL) {
            trp_box_release(local, gone->box, true);
        }
        trp_heap_free(&core->heap, gone, gone->bytes);
        gone = next;
    }
}

/* --- arrival -------------------------------------------------------------- */

static struct trp_letter *
make_letter(struct trp_core *core, struct trp_local *local,
    const troupe_dead_letter *from, struct trp_box *box)
{
    struct trp_replay *replay = trp_box_replay_of(box);
    char recipient[PATH_BYTES], sender[PATH_BYTES];
    struct trp_letter *letter;
    size_t at, bytes;

    name_of(core, from->recipient, recipient, sizeof recipient);
    name_of(core, from->msg->sender, sender, sizeof sender);
    at = strlen(recipient) + 1;
    bytes = sizeof *letter + at + strlen(sender) + 1;
    letter = trp_heap_alloc(&core->heap, bytes);
    if (letter == NULL) {
        return NULL;
    }
    letter->bytes = bytes;
    letter->box = trp_box_capture(core, local, from->msg, box);
    if (letter->box == NULL) {
        trp_heap_free(&core->heap, letter, bytes);
        return NULL;
    }
    letter->holders = 1;
    if (replay != NULL) { /* D2: if it is lost once more, it is a new one */
        letter->id = replay->id;
        replay->id = 0;
    }
    letter->replays = from->replays;
    letter->recipient = from->recipient;
    letter->reason = from->reason;
    letter->sender_at = (uint32_t)at;
    strcpy(letter->paths, recipient);
    strcpy(letter->paths + at, sender);
    return letter;
}

/* False: no memory. */
static bool
keep(troupe_system *system, struct trp_local *local,
    const troupe_dead_letter *from, struct trp_box *box)
{
    struct trp_dead_letters *store = &system->dead_letters;
    struct trp_letter *letter = make_letter(&system->core, local, from, box);
    struct trp_letter *gone = NULL;

    if (letter == NULL) {
        trp_dead_letters_no_memory(system);
        return false;
    }
    trp_lock_acquire(&store->lock);
    letter->arrival = ++store->arrivals;
    letter->when_ns = troupe_now_ns(system);
    if (letter->id == 0) {
        letter->id = ++store->last_id;
    }
    link_locked(store, letter);
    evict_locked(system, &gone);
    trp_lock_release(&store->lock);
    free_all(&system->core, gone);
    return true;
}

void
trp_dead_letters_no_memory(troupe_system *system)
{
    trp_system_log(system, TRP_LOG_LETTER_LOST, TROUPE_LOG_WARN,
        "no memory to keep a dead letter");
}

/*
 * A message that waited when the system stopped is nobody's mistake, nor one
 * whose asker has gone with it.
 */
static troupe_log_level
level_of(const struct trp_core *core, const troupe_dead_letter *letter)
{
    return (letter->reason == TROUPE_DEAD_STOPPED ||
               letter->reason == TROUPE_DEAD_EXPIRED) &&
                   trp_load_acquire(&core->closing) != 0 /* pairs:
                                                            system.closing */
               ? TROUPE_LOG_INFO
               : TROUPE_LOG_WARN;
}

static void
log_letter(troupe_system *system, const troupe_dead_letter *letter)
{
    struct trp_core *core = &system->core;
    troupe_log_level level = level_of(core, letter);
    char recipient[LINE_PATH_BYTES], sender[LINE_PATH_BYTES];

    if (!trp_log_is_on(&system->log, level) ||
        !trp_log_is_due(&system->log, TRP_LOG_LETTER, troupe_now_ns(system))) {
        return;
    }
    name_of(core, letter->recipient, recipient, sizeof recipient);
    name_of(core, letter->msg->sender, sender, sizeof sender);
    trp_system_log(system, TRP_LOG_LETTER, level,
        "dead letter, %s: message %s from %s to %s",
        troupe_dead_reason_name(letter->reason),
        trp_type_name(letter->msg->type), sender[0] != '\0' ? sender : "nobody",
        recipient[0] != '\0' ? recipient : "nobody");
}

void
trp_dead_letters_arrive(struct trp_core *core, struct trp_local *local,
    const troupe_dead_letter *letter, struct trp_box *box)
{
    troupe_system *system = trp_system_of(core);

    if (letter->msg->type->tag == TROUPE_TAG_DEAD_LETTER) {
        return; /* what tells of one must not make another one */
    }
    if (system->dead_letters.capacity == 0 ||
        keep(system, local, letter, box)) {
        trp_stock_count_letter(system, letter->recipient, TRP_LETTER_CAPTURED);
    }
    log_letter(system, letter);
    trp_events_letter(system, local, letter, box);
}

/* --- life ----------------------------------------------------------------- */

bool
trp_dead_letters_init(troupe_system *system,
    const troupe_dead_letter_options *options, uint64_t capacity)
{
    struct trp_dead_letters *store = &system->dead_letters;
    uint32_t replays = options != NULL ? options->max_replays : 0;
    uint64_t retention_ns = options != NULL ? options->retention_ns : 0;

    if (capacity == TRP_DEAD_LETTERS_COUNT ||
        capacity == TRP_DEAD_LETTERS_OFF) {
        return true;
    }
    store->max_replays = replays == 0                     ? REPLAYS_DEFAULT
                         : replays == TROUPE_REPLAYS_NONE ? 0
                                                          : replays;
    store->retention_ns =
        retention_ns != 0 ? retention_ns : RETENTION_DEFAULT_NS;
    store->buckets = (size_t)1 << trp_log2_ceil(capacity);
    store->bucket = trp_heap_alloc(
        &system->core.heap, store->buckets * sizeof(struct trp_letter *));
    if (store->bucket == NULL) {
        return false;
    }
    store->capacity = (uint32_t)capacity;
    return true;
}

/* Everything out of the store; how many there were. */
static size_t
clear(troupe_system *system)
{
    struct trp_dead_letters *store = &system->dead_letters;
    struct trp_letter *gone = NULL;
    size_t count = 0;

    trp_lock_acquire(&store->lock);
    evict_locked(system, &gone);
    while (store->oldest != NULL) {
        struct trp_letter *letter = store->oldest;

        unlink_locked(store, letter);
        let_go_locked(letter, &gone);
        count++;
    }
    trp_lock_release(&store->lock);
    free_all(&system->core, gone);
    return count;
}

void
trp_dead_letters_fini(troupe_system *system)
{
    struct trp_dead_letters *store = &system->dead_letters;

    if (store->bucket == NULL) {
        return;
    }
    if (trp_core_is_alive(&system->core)) {
        (void)clear(system);
    }
    /* A forked child: lock, pools and payloads are the parent's. */
    while (store->oldest != NULL) {
        struct trp_letter *letter = store->oldest;

        store->oldest = letter->newer;
        trp_heap_free(&system->core.heap, letter, letter->bytes);
    }
    trp_heap_free(&system->core.heap, store->bucket,
        store->buckets * sizeof(struct trp_letter *));
}

/* --- visiting ------------------------------------------------------------- */

static troupe_status
check(const troupe_system *system, const char *call)
{
    troupe_status status = trp_system_check(system, call);

    if (status == TROUPE_OK && system->dead_letters.capacity == 0) {
        return trp_refuse(TROUPE_E_STATE, call, "dead_letters",
            "has no capacity: they are only counted", "%s", system->name);
    }
    return status;
}

static troupe_status
check_visitor(const troupe_system *system, troupe_dead_letter_visit_fn visit,
    const char *call)
{
    troupe_status status = check(system, call);

    if (status == TROUPE_OK && visit == NULL) {
        return trp_refuse(
            TROUPE_E_INVALID, call, "visit", "must not be NULL", "NULL");
    }
    return status;
}

static bool
show(const struct trp_letter *letter, troupe_dead_letter_visit_fn visit,
    void *user)
{
    const troupe_dead_letter_entry entry = {.size = sizeof entry,
        .id = letter->id,
        .when_ns = letter->when_ns,
        .recipient_path = letter->paths,
        .sender_path = letter->paths + letter->sender_at,
        .letter = {.msg = &letter->box->msg,
            .recipient = letter->recipient,
            .reason = letter->reason,
            .replays = letter->replays}};

    return visit(&entry, user);
}

/* A filter that was checked. */
struct wanted {
    const char *subtree; /* begins with '/'; NULL = all */
    size_t length;       /* without a '/' at its end */
    uint64_t since_ns, until_ns;
    size_t limit;
};

static bool
is_wanted(const struct trp_core *core, const struct wanted *wanted,
    const struct trp_letter *letter)
{
    const char *path;

    if (letter->when_ns < wanted->since_ns ||
        letter->when_ns > wanted->until_ns) {
        return false;
    }
    if (wanted->subtree == NULL) {
        return true;
    }
    path = local_path(core, letter->paths);
    return path != NULL &&
           strncmp(path, wanted->subtree, wanted->length) == 0 &&
           (path[wanted->length] == '/' || path[wanted->length] == '\0');
}

static troupe_status
read_filter(const struct trp_core *core, const troupe_dead_letter_filter *given,
    const char *call, struct wanted *wanted)
{
    troupe_dead_letter_filter filter = {0};
    troupe_status status = TROUPE_OK;

    *wanted = (struct wanted){.until_ns = UINT64_MAX, .limit = SIZE_MAX};
    if (given != NULL) {
        status = trp_options_copy(&filter, sizeof filter, given, call);
    }
    if (status != TROUPE_OK) {
        return status;
    }
    wanted->since_ns = filter.since_ns;
    if (filter.until_ns != 0) {
        wanted->until_ns = filter.until_ns;
    }
    if (filter.limit != 0) {
        wanted->limit = filter.limit;
    }
    if (filter.subtree != NULL) {
        wanted->subtree = local_path(core, filter.subtree);
        if (wanted->subtree == NULL) {
            return trp_refuse(TROUPE_E_INVALID, call, "subtree",
                "must be an absolute path in this system", "%.20s",
                filter.subtree);
        }
        wanted->length = strlen(wanted->subtree);
        while (
            wanted->length > 0 && wanted->subtree[wanted->length - 1] == '/') {
            wanted->length--;
        }
    }
    return TROUPE_OK;
}

/* Holds those that are wanted, newest first, at most `room`. */
static size_t
hold(troupe_system *system, const struct wanted *wanted,
    struct trp_letter **held, size_t room)
{
    struct trp_dead_letters *store = &system->dead_letters;
    struct trp_letter *gone = NULL;
    size_t count = 0;

    trp_lock_acquire(&store->lock);
    evict_locked(system, &gone);
    for (struct trp_letter *letter = store->newest;
         letter != NULL && count < room; letter = letter->older) {
        if (is_wanted(&system->core, wanted, letter)) {
            letter->holders++;
            held[count++] = letter;
        }
    }
    trp_lock_release(&store->lock);
    free_all(&system->core, gone);
    return count;
}

static void
let_go(troupe_system *system, struct trp_letter **held, size_t count)
{
    struct trp_letter *gone = NULL;

    trp_lock_acquire(&system->dead_letters.lock);
    for (size_t i = 0; i < count; i++) {
        let_go_locked(held[i], &gone);
    }
    trp_lock_release(&system->dead_letters.lock);
    free_all(&system->core, gone);
}

troupe_status
troupe_dead_letters_list(troupe_system *system,
    const troupe_dead_letter_filter *filter, troupe_dead_letter_visit_fn visit,
    void *user)
{
    static const char call[] = "troupe_dead_letters_list";
    troupe_status status = check_visitor(system, visit, call);
    struct trp_dead_letters *store;
    struct trp_letter **held;
    struct wanted wanted;
    size_t room, count;

    if (status == TROUPE_OK) {
        status = read_filter(&system->core, filter, call, &wanted);
    }
    if (status != TROUPE_OK) {
        return status;
    }
    store = &system->dead_letters;
    trp_lock_acquire(&store->lock);
    room = store->count < wanted.limit ? store->count : wanted.limit;
    trp_lock_release(&store->lock);
    if (room == 0) {
        return TROUPE_OK;
    }
    held = trp_heap_alloc(&system->core.heap, room * sizeof *held);
    if (held == NULL) {
        return TROUPE_E_NOMEM;
    }
    count = hold(system, &wanted, held, room);
    for (size_t i = 0; i < count && show(held[i], visit, user); i++) {
    }
    let_go(system, held, count);
    trp_heap_free(&system->core.heap, held, room * sizeof *held);
    return TROUPE_OK;
}

troupe_status
troupe_dead_letters_get(troupe_system *system, uint64_t id,
    troupe_dead_letter_visit_fn visit, void *user)
{
    troupe_status status =
        check_visitor(system, visit, "troupe_dead_letters_get");
    struct trp_letter *gone = NULL, *letter;

    if (status != TROUPE_OK) {
        return status;
    }
    trp_lock_acquire(&system->dead_letters.lock);
    evict_locked(system, &gone);
    letter = find_locked(&system->dead_letters, id);
    if (letter != NULL) {
        letter->holders++;
    }
    trp_lock_release(&system->dead_letters.lock);
    free_all(&system->core, gone);
    if (letter == NULL) {
        return TROUPE_E_MISSING;
    }
    (void)show(letter, visit, user);
    let_go(system, &letter, 1);
    return TROUPE_OK;
}

size_t
troupe_dead_letters_clear(troupe_system *system)
{
    return check(system, "troupe_dead_letters_clear") == TROUPE_OK
               ? clear(system)
               : 0;
}

/* --- replay --------------------------------------------------------------- */

/* Takes it out (D2), if it may be replayed. */
static troupe_status
take_out(troupe_system *system, uint64_t id, struct trp_letter **letter)
{
    static const char call[] = "troupe_dead_letters_replay";
    struct trp_dead_letters *store = &system->dead_letters;
    struct trp_letter *gone = NULL, *found;
    troupe_status status = TROUPE_OK;
    uint32_t replays = 0;

    trp_lock_acquire(&store->lock);
    evict_locked(system, &gone);
    found = find_locked(store, id);
    if (found == NULL) {
        status = TROUPE_E_MISSING;
    } else if (found->box->msg.payload == NULL) {
        status = TROUPE_E_INVALID;
    } else if (found->replays >= store->max_replays) {
        status = TROUPE_E_LIMIT;
        replays = found->replays;
    } else {
        unlink_locked(store, found);
        *letter = found;
    }
    trp_lock_release(&store->lock);
    free_all(&system->core, gone);
    if (status == TROUPE_E_INVALID) {
        trp_refuse(status, call, "id", "is a letter without its payload",
            "%llu", (unsigned long long)id);
    } else if (status == TROUPE_E_LIMIT) {
        trp_refuse(status, call, "max_replays", "were made of this letter",
            "%u", replays);
    }
    return status;
}

/* A message of its own (D3) that knows what it was; NULL: no memory. */
static struct trp_box *
make_replay(struct trp_core *core, struct trp_local *local,
    const struct trp_letter *letter)
{
    const troupe_msg *msg = &letter->box->msg;
    struct trp_box *base, *box;

    if ((msg->type->flags & TROUPE_MSG_SHARED) != 0) {
        base = trp_box_base(letter->box);
        trp_add_relaxed(&base->refs, 1); /* relaxed: the letter holds one */
    } else {
        base = trp_box_new(core, local, msg->type, msg->bytes);
        if (base == NULL) {
            return NULL;
        }
        memcpy(base->msg.payload, msg->payload, msg->bytes);
    }
    box = trp_box_replay(core, local, base, letter->id, letter->replays + 1);
    if (box == NULL) {
        trp_box_release(local, base, false);
        return NULL;
    }
    box->msg.sender = msg->sender;
    return box;
}

static troupe_status
send_again(
    troupe_system *system, const struct trp_letter *letter, troupe_ref to)
{
    struct trp_core *core = &system->core;
    struct trp_local *local = trp_local_here(core);
    struct trp_box *box = make_replay(core, local, letter);
    struct trp_item item;
    troupe_status status;

    if (box == NULL) {
        return TROUPE_E_NOMEM;
    }
    trp_item_from_box(&item, box);
    trp_book(core, local, sent, 1);
    status = trp_mailbox_deliver(core, local, to, &item);
    if (status != TROUPE_OK) {
        trp_book(core, local, refused, 1);
        trp_box_release(local, box, false);
    }
    return status;
}

troupe_status
troupe_dead_letters_replay(troupe_system *system, uint64_t id, troupe_ref to)
{
    troupe_status status = check(system, "troupe_dead_letters_replay");
    struct trp_letter *letter = NULL, *gone = NULL;
    troupe_ref recipient = to;

    if (status != TROUPE_OK) {
        return status;
    }
    if (trp_load_acquire(&system->core.closing) != 0) { /* pairs:
                                                           system.closing */
        return TROUPE_E_CLOSED;
    }
    status = take_out(system, id, &letter);
    if (status != TROUPE_OK) {
        return status;
    }
    if (troupe_ref_is_none(to)) {
        recipient = letter->recipient;
    }
    status = send_again(system, letter, recipient);
    trp_stock_count_letter(system, recipient,
        status == TROUPE_OK ? TRP_LETTER_REPLAYED : TRP_LETTER_REPLAY_FAILED);
    trp_lock_acquire(&system->dead_letters.lock);
    if (status == TROUPE_OK) {
        let_go_locked(letter, &gone);
    } else {
        link_locked(&system->dead_letters, letter);
        evict_locked(system, &gone);
    }
    trp_lock_release(&system->dead_letters.lock);
    free_all(&system->core, gone);
    return status;
}
