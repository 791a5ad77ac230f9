/* SPDX-License-Identifier: MIT */
#include "system/events.h"

#include "actor/send.h"
#include "system/stock_metrics.h"
#include "system/system.h"

/* The event stream: subscriptions, and three ways to publish. */

#define AT_ONCE 16 /* receivers per visit to the ring */

struct trp_link {
    struct trp_link *prev, *next;
};

struct trp_topic {
    struct trp_link ring; /* first: the ring begins and ends here */
    struct trp_topic *same_bucket;
    troupe_tag tag;
};

struct trp_subscription {
    struct trp_link link;          /* first; under lock */
    struct trp_subscription *mine; /* next of the same actor; the actor's */
    struct trp_topic *topic;
    uint64_t number;
    troupe_ref ref; /* TROUPE_NONE: a publisher's place */
    troupe_event_filter_fn filter;
    void *user;
};

/* --- topics --------------------------------------------------------------- */

static void
insert_after(struct trp_link *at, struct trp_link *link)
{
    link->prev = at;
    link->next = at->next;
    at->next->prev = link;
    at->next = link;
}

static void
remove_link(struct trp_link *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
}

static struct trp_subscription *
subscription_of(struct trp_link *link)
{
    return TRP_CONTAINER_OF(link, struct trp_subscription, link);
}

static struct trp_topic **
place_of_topic(struct trp_events *events, troupe_tag tag)
{
    struct trp_topic **link = &events->bucket[tag % TRP_TOPIC_BUCKETS];

    while (*link != NULL && (*link)->tag != tag) {
        link = &(*link)->same_bucket;
    }
    return link;
}

/* S1. Returns the topic, to be freed without the lock, or NULL. */
static struct trp_topic *
end_if_empty_locked(struct trp_events *events, struct trp_topic *topic)
{
    struct trp_topic **link;

    if (topic->ring.next != &topic->ring) {
        return NULL;
    }
    link = place_of_topic(events, topic->tag);
    *link = topic->same_bucket;
    return topic;
}

/* How many listen to what the library publishes; NULL for any other tag. */
static TRP_ATOMIC(uint32_t) *
    listeners_of(troupe_system *system, troupe_tag tag)
{
    switch (tag) {
    case TROUPE_TAG_DEAD_LETTER:
        return &system->events.letter_listeners;
    case TROUPE_TAG_ACTOR_STARTED:
    case TROUPE_TAG_ACTOR_STOPPED:
    case TROUPE_TAG_ACTOR_RESTARTED:
    case TROUPE_TAG_RUNTIME_ERROR:
        return &system->events.life_listeners;
    default:
        return NULL;
    }
}

/* One more, or one less: hints for publishers. */
static void
count_listener(troupe_system *system, troupe_tag tag, uint32_t by)
{
    TRP_ATOMIC(uint32_t) *listeners = listeners_of(system, tag);

    if (listeners != NULL) {
        trp_add_relaxed(listeners, by); /* relaxed: a hint */
    }
    if (listeners == &system->events.life_listeners) {
        trp_add_relaxed(&system->core.life_listeners, by); /* relaxed: same */
    }
}

/* --- subscribe and unsubscribe -------------------------------------------- */

static void
link_locked(troupe_system *system, struct trp_topic *topic,
    struct trp_subscription *one)
{
    one->topic = topic;
    one->number = ++system->events.last;
    insert_after(topic->ring.prev, &one->link);
    count_listener(system, topic->tag, 1);
}

/* Ends each of a chain, and frees it. */
static void
end_all(troupe_system *system, struct trp_subscription *first)
{
    struct trp_heap *heap = &system->core.heap;

    while (first != NULL) {
        struct trp_subscription *next = first->mine;
        struct trp_topic *empty;

        trp_lock_acquire(&system->events.lock);
        remove_link(&first->link);
        count_listener(system, first->topic->tag, UINT32_MAX);
        empty = end_if_empty_locked(&system->events, first->topic);
        trp_lock_release(&system->events.lock);
        trp_heap_free(heap, empty, sizeof *empty);
        trp_heap_free(heap, first, sizeof *first);
        first = next;
    }
}

/* Into the topic, which is made if there is none. False: no memory. */
static bool
join(troupe_system *system, troupe_tag tag, struct trp_subscription *one)
{
    struct trp_events *events = &system->events;
    struct trp_heap *heap = &system->core.heap;
    struct trp_topic *spare = NULL, **place;
    bool joined = false;

    for (int round = 0; round < 2 && !joined; round++) {
        if (round == 1) {
            spare = trp_heap_alloc(heap, sizeof *spare);
            if (spare == NULL) {
                return false;
            }
            spare->tag = tag;
            spare->ring.prev = spare->ring.next = &spare->ring;
        }
        trp_lock_acquire(&events->lock);
        place = place_of_topic(events, tag);
        if (*place == NULL && spare != NULL) {
            *place = spare;
            spare = NULL;
        }
        if (*place != NULL) {
            link_locked(system, *place, one);
            joined = true;
        }
        trp_lock_release(&events->lock);
    }
    trp_heap_free(heap, spare, sizeof *spare); /* somebody was faster */
    return true;
}

static troupe_status
check_subscriber(const troupe_self *self, troupe_tag tag, const char *call)
{
    if (self == NULL) {
        return trp_refuse(
            TROUPE_E_INVALID, call, "self", "must not be NULL", "NULL");
    }
    if (tag == 0 || (tag >= TROUPE_TAG_RESERVED &&
                        listeners_of(trp_system_of(self->core), tag) == NULL)) {
        return trp_refuse(TROUPE_E_INVALID, call, "tag",
            "must be yours or one that the library publishes", "%u", tag);
    }
    return TROUPE_OK;
}

troupe_status
troupe_subscribe(troupe_self *self, troupe_tag tag,
    troupe_event_filter_fn filter, void *user)
{
    static const char call[] = "troupe_subscribe";
    troupe_status status = check_subscriber(self, tag, call);
    struct trp_subscription *one;
    struct trp_extra *extra;

    if (status != TROUPE_OK) {
        return status;
    }
    if ((trp_cell_flags(self->cell) & TRP_CELL_STOPPING) != 0) {
        return trp_refuse(
            TROUPE_E_STATE, call, "self", "is stopping", "%u", self->ref.index);
    }
    extra = trp_cell_extra(self->core, self->cell);
    if (extra == NULL) {
        return TROUPE_E_NOMEM;
    }
    for (one = extra->subscriptions; one != NULL; one = one->mine) {
        if (one->topic->tag == tag && one->filter == filter &&
            (filter == NULL || one->user == user)) {
            return TROUPE_OK; /* start() may have run before */
        }
    }
    one = trp_heap_alloc(&self->core->heap, sizeof *one);
    if (one == NULL) {
        return TROUPE_E_NOMEM;
    }
    one->ref = self->ref;
    one->filter = filter;
    one->user = user;
    if (!join(trp_system_of(self->core), tag, one)) {
        trp_heap_free(&self->core->heap, one, sizeof *one);
        return TROUPE_E_NOMEM;
    }
    one->mine = extra->subscriptions;
    extra->subscriptions = one;
    return TROUPE_OK;
}

troupe_status
troupe_unsubscribe(troupe_self *self, troupe_tag tag)
{
    troupe_status status = check_subscriber(self, tag, "troupe_unsubscribe");
    struct trp_subscription *ended = NULL, **link;
    struct trp_extra *extra;

    if (status != TROUPE_OK) {
        return status;
    }
    extra = trp_load_acquire(
        &trp_cold_of(self->core, self->cell)->extra); /* pairs: cell.extra */
    if (extra == NULL) {
        return TROUPE_E_MISSING;
    }
    link = &extra->subscriptions;
    while (*link != NULL) {
        struct trp_subscription *one = *link;

        if (one->topic->tag == tag) {
            *link = one->mine;
            one->mine = ended;
            ended = one;
        } else {
            link = &one->mine;
        }
    }
    if (ended == NULL) {
        return TROUPE_E_MISSING;
    }
    end_all(trp_system_of(self->core), ended);
    return TROUPE_OK;
}

static void
on_subscriber_gone(struct trp_core *core, struct trp_subscription *first)
{
    end_all(trp_system_of(core), first);
}

/* --- publish -------------------------------------------------------------- */

struct receiver {
    troupe_ref ref;
    troupe_event_filter_fn filter;
    void *user;
};

/* Leaves a place at the beginning of the ring. False: nobody listens. */
static bool
enter(struct trp_events *events, troupe_tag tag, struct trp_subscription *place)
{
    struct trp_topic *topic;

    trp_lock_acquire(&events->lock);
    topic = *place_of_topic(events, tag);
    if (topic != NULL) {
        place->topic = topic;
        place->number = events->last; /* S3 */
        insert_after(&topic->ring, &place->link);
    }
    trp_lock_release(&events->lock);
    return topic != NULL;
}

/* The next few after the place, which moves behind them. */
static size_t
next_few(struct trp_events *events, struct trp_subscription *place,
    struct receiver few[AT_ONCE])
{
    struct trp_link *end = &place->topic->ring;
    struct trp_link *at;
    size_t count = 0;

    trp_lock_acquire(&events->lock);
    for (at = place->link.next; at != end && count < AT_ONCE; at = at->next) {
        const struct trp_subscription *one = subscription_of(at);

        if (troupe_ref_is_none(one->ref)) {
            continue;
        }
        if (one->number > place->number) {
            break;
        }
        few[count++] = (struct receiver){one->ref, one->filter, one->user};
    }
    remove_link(&place->link);
    insert_after(at->prev, &place->link);
    trp_lock_release(&events->lock);
    return count;
}

static void
leave(troupe_system *system, struct trp_subscription *place)
{
    struct trp_topic *empty;

    trp_lock_acquire(&system->events.lock);
    remove_link(&place->link);
    empty = end_if_empty_locked(&system->events, place->topic);
    trp_lock_release(&system->events.lock);
    trp_heap_free(&system->core.heap, empty, sizeof *empty);
}

/* To all who want it; what the payload owns is the fan's. */
static size_t
publish(struct trp_fan *fan)
{
    troupe_system *system = trp_system_of(fan->sending.core);
    const troupe_msg view = {fan->type, (void *)(uintptr_t)fan->payload,
        fan->type->bytes, fan->sending.sender};
    struct trp_subscription place = {.ref = TROUPE_NONE};
    struct receiver few[AT_ONCE];
    size_t accepted = 0, count;

    if (enter(&system->events, fan->type->tag, &place)) {
        while ((count = next_few(&system->events, &place, few)) != 0) {
            for (size_t i = 0; i < count; i++) {
                if ((few[i].filter == NULL ||
                        few[i].filter(&view, few[i].user)) &&
                    trp_fan_to(fan, few[i].ref) == TROUPE_OK) {
                    accepted++;
                }
            }
        }
        leave(system, &place);
    }
    trp_fan_end(fan);
    return accepted;
}

size_t
troupe_publish(
    troupe_self *self, const troupe_msg_type *type, const void *payload)
{
    struct trp_sending sending = {.call = "troupe_publish"};
    struct trp_fan fan;

    if (self == NULL) {
        trp_refuse(
            TROUPE_E_INVALID, sending.call, "self", "must not be NULL", "NULL");
        return 0;
    }
    sending.core = self->core;
    sending.local = self->local;
    sending.sender = self->ref;
    return trp_fan_begin(&fan, &sending, type, payload,
               type != NULL ? type->bytes : 0) == TROUPE_OK
               ? publish(&fan)
               : 0;
}

size_t
troupe_post_publish(
    troupe_system *system, const troupe_msg_type *type, const void *payload)
{
    struct trp_sending sending = {.call = "troupe_post_publish"};
    struct trp_fan fan;

    if (trp_system_check(system, sending.call) != TROUPE_OK) {
        return 0;
    }
    if (trp_load_acquire(&system->core.closing) != 0) { /* pairs:
                                                           system.closing */
        trp_refuse(TROUPE_E_CLOSED, sending.call, "system", "is stopping", "%s",
            system->name);
        return 0;
    }
    sending.core = &system->core;
    sending.local = trp_local_here(&system->core);
    return trp_fan_begin(&fan, &sending, type, payload,
               type != NULL ? type->bytes : 0) == TROUPE_OK
               ? publish(&fan)
               : 0;
}

/* --- the library's own ---------------------------------------------------- */

/* Of a reserved tag, so not through trp_fan_begin(). */
static void
publish_own(struct trp_core *core, struct trp_local *local,
    const troupe_msg_type *type, const void *payload)
{
    struct trp_fan fan = {.sending = {.core = core, .local = local},
        .type = type,
        .payload = payload,
        .bytes = type->bytes};

    (void)publish(&fan);
}

static void
drop_letter(void *payload, size_t bytes)
{
    troupe_dead_letter *letter = payload;

    (void)bytes;
    troupe_msg_free((troupe_msg *)(uintptr_t)letter->msg);
}

static const troupe_msg_type letter_type = {sizeof(troupe_msg_type),
    "dead_letter", sizeof(troupe_dead_letter), TROUPE_TAG_DEAD_LETTER,
    TROUPE_MSG_SHARED, drop_letter};
static const troupe_msg_type started_type = {sizeof(troupe_msg_type),
    "actor_started", sizeof(troupe_actor_event), TROUPE_TAG_ACTOR_STARTED,
    TROUPE_MSG_SHARED, NULL};
static const troupe_msg_type stopped_type = {sizeof(troupe_msg_type),
    "actor_stopped", sizeof(troupe_actor_event), TROUPE_TAG_ACTOR_STOPPED,
    TROUPE_MSG_SHARED, NULL};
static const troupe_msg_type restarted_type = {sizeof(troupe_msg_type),
    "actor_restarted", sizeof(troupe_actor_event), TROUPE_TAG_ACTOR_RESTARTED,
    TROUPE_MSG_SHARED, NULL};
static const troupe_msg_type error_type = {sizeof(troupe_msg_type),
    "runtime_error", sizeof(troupe_actor_event), TROUPE_TAG_RUNTIME_ERROR,
    TROUPE_MSG_SHARED, NULL};

void
trp_events_letter(troupe_system *system, struct trp_local *local,
    const troupe_dead_letter *letter, struct trp_box *box)
{
    troupe_dead_letter copy = *letter;
    struct trp_box *kept;

    /* relaxed: who subscribes meanwhile may miss one. */
    if (trp_load_relaxed(&system->events.letter_listeners) == 0) {
        return;
    }
    kept = trp_box_capture(&system->core, local, letter->msg, box);
    if (kept == NULL) {
        trp_dead_letters_no_memory(system);
        return;
    }
    copy.msg = &kept->msg;
    publish_own(&system->core, local, &letter_type, &copy);
}

static void
publish_life(struct trp_core *core, struct trp_local *local,
    const struct trp_life *life, const troupe_msg_type *type)
{
    troupe_actor_event event;

    /* relaxed: who subscribes meanwhile may miss one. */
    if (trp_load_relaxed(&trp_system_of(core)->events.life_listeners) == 0) {
        return;
    }
    event.exit = life->exit;
    event.parent =
        troupe_ref_equal(life->parent, core->user) ? TROUPE_NONE : life->parent;
    event.type = life->type->name;
    publish_own(core, local, type, &event);
}

static void
on_started(
    struct trp_core *core, struct trp_local *local, const struct trp_life *life)
{
    trp_stock_count_life(trp_system_of(core), life->type, TRP_CLASS_STARTED);
    publish_life(core, local, life, &started_type);
}

static void
on_stopped(
    struct trp_core *core, struct trp_local *local, const struct trp_life *life)
{
    trp_stock_count_life(trp_system_of(core), life->type, TRP_CLASS_STOPPED);
    publish_life(core, local, life, &stopped_type);
}

static void
on_restarted(
    struct trp_core *core, struct trp_local *local, const struct trp_life *life)
{
    trp_stock_count_life(trp_system_of(core), life->type, TRP_CLASS_RESTARTED);
    publish_life(core, local, life, &restarted_type);
}

static void
on_error(
    struct trp_core *core, struct trp_local *local, const struct trp_life *life)
{
    publish_life(core, local, life, &error_type);
}

/* An actor with several filters is there several times. */
static uint32_t
error_listeners(struct trp_core *core, troupe_ref *refs, uint32_t most)
{
    struct trp_events *events = &trp_system_of(core)->events;
    struct trp_topic *topic;
    uint32_t count = 0;

    trp_lock_acquire(&events->lock);
    topic = *place_of_topic(events, TROUPE_TAG_RUNTIME_ERROR);
    if (topic != NULL) {
        for (struct trp_link *at = topic->ring.next;
             at != &topic->ring && count < most; at = at->next) {
            troupe_ref ref = subscription_of(at)->ref;

            if (!troupe_ref_is_none(ref)) { /* else a publisher's place */
                refs[count++] = ref;
            }
        }
    }
    trp_lock_release(&events->lock);
    return count;
}

/* --- life ----------------------------------------------------------------- */

void
trp_events_init(troupe_system *system)
{
    system->core.on_started = on_started;
    system->core.on_stopped = on_stopped;
    system->core.on_restarted = on_restarted;
    system->core.on_error = on_error;
    system->core.error_listeners = error_listeners;
    system->core.on_subscriber_gone = on_subscriber_gone;
}

void
trp_events_fini(troupe_system *system)
{
    struct trp_heap *heap = &system->core.heap;

    for (size_t i = 0; i < TRP_TOPIC_BUCKETS; i++) {
        struct trp_topic *topic = system->events.bucket[i];

        while (topic != NULL) {
            struct trp_topic *next = topic->same_bucket;
            struct trp_link *link = topic->ring.next;

            while (link != &topic->ring) {
                struct trp_subscription *one = subscription_of(link);

                link = link->next;
                if (!troupe_ref_is_none(one->ref)) { /* else on a stack */
                    trp_heap_free(heap, one, sizeof *one);
                }
            }
            trp_heap_free(heap, topic, sizeof *topic);
            topic = next;
        }
    }
}
