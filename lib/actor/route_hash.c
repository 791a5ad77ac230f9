/* SPDX-License-Identifier: MIT */
#include "actor/route_more.h"
#include "base/hash.h"
#include "base/rendezvous.h"

/* So many places are copied on the stack, more of them into the heap. */
#define NEAR_MOST 64u

/* A copy of one version: what base/rendezvous.h chooses among. */
struct places {
    struct trp_rendezvous among;
    uint32_t capacity;
    troupe_ref *ref;
    uint64_t *mixed;
    uint32_t *original;
    uint32_t *loads;
    uint32_t *weights;
    void *far; /* NULL: all is near */
    bool is_weighted;
    troupe_key_fn key;
    troupe_key_bytes_fn key_bytes; /* one of these two is NULL */
    void *user;
    uint32_t bounded_load_percent;
    troupe_ref near_ref[NEAR_MOST];
    uint64_t near_mixed[NEAR_MOST];
    uint32_t near_original[NEAR_MOST];
    uint32_t near_loads[NEAR_MOST];
    uint32_t near_weights[NEAR_MOST];
};

#define PLACE_BYTES                                                            \
    (sizeof(troupe_ref) + sizeof(uint64_t) + 3 * sizeof(uint32_t))

static void
places_init(struct places *places)
{
    places->capacity = NEAR_MOST;
    places->ref = places->near_ref;
    places->mixed = places->near_mixed;
    places->original = places->near_original;
    places->loads = places->near_loads;
    places->weights = places->near_weights;
    places->far = NULL;
}

static void
places_fini(struct trp_core *core, struct places *places)
{
    trp_heap_free(&core->heap, places->far, places->capacity * PLACE_BYTES);
}

static bool
places_reserve(struct trp_core *core, struct places *places, uint32_t count)
{
    char *more;

    if (count <= places->capacity) {
        return true;
    }
    more = trp_heap_alloc(&core->heap, count * PLACE_BYTES);
    if (more == NULL) {
        return false;
    }
    places_fini(core, places);
    places->capacity = count;
    places->far = more;
    places->ref = (void *)more;
    places->mixed = (void *)(places->ref + count);
    places->original = (void *)(places->mixed + count);
    places->loads = places->original + count;
    places->weights = places->loads + count;
    return true;
}

static void
copy_settings(const struct trp_route_block *block, struct places *places)
{
    places->key = trp_load_acquire(&block->key); /* pairs: table.entry */
    places->key_bytes =
        trp_load_acquire(&block->key_bytes);       /* pairs: table.entry */
    places->user = trp_load_acquire(&block->user); /* pairs: table.entry */
    places->bounded_load_percent =
        trp_load_acquire(&block->bounded_load_percent); /* pairs: table.entry */
    places->is_weighted =
        trp_load_acquire(&block->is_weighted) != 0; /* pairs: table.entry */
}

static void
copy_weights(const struct trp_routing *routing, struct places *places)
{
    TRP_ATOMIC(uint32_t) *weights =
        trp_route_tail(routing->block, routing->count);

    for (uint32_t i = 0; i < routing->count; i++) {
        places->weights[i] =
            trp_load_acquire(&weights[i]); /* pairs: table.entry */
    }
}

/* All of one version. False: no memory. */
static bool
copy_places(struct trp_routing *routing, struct places *places)
{
    for (;;) {
        if (!places_reserve(routing->core, places, routing->count)) {
            return false;
        }
        for (uint32_t i = 0; i < routing->count; i++) {
            uint64_t identity = trp_routing_up_to(routing, i);

            places->ref[i] = trp_routing_member(routing, i);
            places->mixed[i] = identity;
            places->original[i] = (uint32_t)identity;
        }
        if (routing->count != 0) {
            copy_settings(routing->block, places);
            /* Only a version that is weighted has a tail. */
            if (places->is_weighted && trp_routing_is_current(routing)) {
                copy_weights(routing, places);
            }
        }
        if (trp_routing_is_current(routing)) {
            return true;
        }
        trp_routing_look(routing);
    }
}

/* Whoever has reached the limit, or is about to stop, is passed over. */
static void
limit_load(struct trp_routing *routing, struct places *places)
{
    for (uint32_t i = 0; i < routing->count; i++) {
        uint32_t depth = trp_route_depth(routing->core, places->ref[i]);

        places->loads[i] =
            depth == TRP_ROUTE_NOT_ROUTABLE ? TRP_RENDEZVOUS_CLOSED
            : depth < TRP_RENDEZVOUS_CLOSED ? depth
                                            : TRP_RENDEZVOUS_CLOSED - 1;
    }
    places->among.loads = places->loads;
    places->among.limit =
        trp_rendezvous_limit(&places->among, places->bounded_load_percent);
}

/* By the user's function, outside every lock. */
static uint64_t
key_of(const struct trp_routing *routing, const struct places *places)
{
    struct trp_item item = *routing->item;
    size_t bytes = 0;
    const void *text;
    troupe_msg view;

    trp_item_view(&item, &view);
    if (places->key != NULL) {
        return places->key(&view, places->user);
    }
    text = places->key_bytes(&view, &bytes, places->user);
    return trp_hash_text32(text, text != NULL ? bytes : 0);
}

static troupe_status
to_place(struct trp_routing *routing, struct places *places, uint64_t key)
{
    uint32_t at = trp_rendezvous_choose(&places->among, key);
    troupe_status status = TROUPE_E_NO_ROUTE;

    if (at == TRP_RENDEZVOUS_NONE && places->among.loads != NULL) {
        places->among.loads = NULL; /* all are about to stop: it shows */
        at = trp_rendezvous_choose(&places->among, key);
    }
    while (at != TRP_RENDEZVOUS_NONE) {
        status = trp_routing_hand_to(routing, places->ref[at]);
        if (!trp_routing_is_gone(status)) {
            break;
        }
        at = trp_rendezvous_after(&places->among, key, at);
    }
    return status;
}

troupe_status
trp_route_to_hashed(struct trp_routing *routing)
{
    troupe_status status = TROUPE_E_NO_ROUTE;
    struct places places;

    places_init(&places);
    if (!copy_places(routing, &places)) {
        status = TROUPE_E_NOMEM;
    } else if (routing->count != 0) {
        uint64_t key = key_of(routing, &places);
        bool is_text = places.key == NULL;

        places.among = (struct trp_rendezvous){.count = routing->count,
            .mixed = is_text ? NULL : places.mixed,
            .original = is_text ? places.original : NULL,
            .weights = places.is_weighted ? places.weights : NULL};
        trp_routing_take_index(routing);
        if (places.bounded_load_percent != 0) {
            limit_load(routing, &places);
        }
        status = to_place(routing, &places, key);
    }
    places_fini(routing->core, &places);
    return status;
}
