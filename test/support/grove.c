/* SPDX-License-Identifier: MIT */
#include "support/grove_inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MARK UINT64_C(0x5ead5ead5ead0001)

void
grove_fail(
    const struct grove *grove, const char *file, int line, const char *what)
{
    (void)fprintf(stderr, "%s:%d: %s; seed %llu, %s\n", file, line, what,
        (unsigned long long)grove->seed,
        grove->kind == GROVE_LIVING ? "living" : "mortal");
    abort();
}

/* --- messages ------------------------------------------------------------- */

static void
drop_leaf(void *payload, size_t bytes) TROUPE_NOEXCEPT
{
    struct leaf *leaf = payload; /* a branch begins with one */

    (void)bytes;
    atomic_fetch_add(&leaf->grove->dropped, 1);
}

#define TYPE(symbol, payload_bytes, tag_, flags_, drop_)                       \
    const troupe_msg_type symbol = {.size = sizeof(troupe_msg_type),           \
        .name = #symbol,                                                       \
        .bytes = (payload_bytes),                                              \
        .tag = (tag_),                                                         \
        .flags = (flags_),                                                     \
        .drop = (drop_)}

TYPE(leaf_type, sizeof(struct leaf), TAG_LEAF, 0, drop_leaf);
TYPE(branch_type, sizeof(struct branch), TAG_BRANCH, 0, drop_leaf);
TYPE(shared_type, sizeof(struct branch), TAG_SHARED, TROUPE_MSG_SHARED,
    drop_leaf);
TYPE(kept_type, sizeof(struct leaf), TAG_KEPT, TROUPE_MSG_UNDROPPABLE,
    drop_leaf);
TYPE(tick_type, sizeof(struct tick), TAG_TICK, 0, NULL);
TYPE(knell_type, sizeof(struct knell), TAG_KNELL, 0, NULL);

const struct leaf *
grove_leaf_of(const troupe_msg *msg)
{
    switch (troupe_msg_tag(msg)) {
    case TAG_LEAF:
    case TAG_KEPT:
        return troupe_payload(msg, struct leaf);
    case TAG_BRANCH:
    case TAG_SHARED:
        return &troupe_payload(msg, struct branch)->leaf;
    default:
        return NULL;
    }
}

const struct tick *
grove_tick_of(const troupe_msg *msg)
{
    switch (troupe_msg_tag(msg)) {
    case TAG_TICK:
        return troupe_payload(msg, struct tick);
    case TAG_KNELL:
        return &troupe_payload(msg, struct knell)->tick;
    default:
        return NULL;
    }
}

struct cargo
grove_load(struct node *node, uint32_t what, uint32_t hops)
{
    static const troupe_msg_type *const types[] = {&leaf_type, &leaf_type,
        &leaf_type, &branch_type, &shared_type, &kept_type};
    struct cargo cargo = {
        types[grove_draw(node, 6)], {{node->grove, what, hops}, {0}}};

    atomic_fetch_add(&node->grove->made, 1);
    return cargo;
}

troupe_ref
grove_ref_of(const struct node *node)
{
    uint64_t key = atomic_load(&node->key);

    return (troupe_ref){(uint32_t)key, (uint32_t)(key >> 32)};
}

static void
post(struct grove *grove, const troupe_msg_type *type, troupe_ref to,
    uint32_t what, uint32_t hops)
{
    const struct leaf leaf = {grove, what, hops};

    atomic_fetch_add(&grove->made, 1);
    if (troupe_post(grove->system, to, type, &leaf) != TROUPE_OK) {
        grove_unload(grove);
    }
}

/* --- actors --------------------------------------------------------------- */

void
grove_check_state(troupe_self *self, const struct being *being)
{
    CHECK(being->grove, being->mark == MARK);
    CHECK(being->grove, being->count == ~being->copy);
    CHECK(being->grove, troupe_ref_equal(being->self, troupe_self_ref(self)));
    CHECK(being->grove,
        being->node == NULL || atomic_load(&being->node->running) == 1);
}

uint32_t
grove_draw(struct node *node, uint32_t below)
{
    struct test_rng rng = {node->grove->seed ^ (uint64_t)node->id << 56 ^
                           atomic_fetch_add(&node->draws, 1)};

    return test_random_below(&rng, below);
}

uint32_t
grove_draw_outside(struct grove *grove, uint32_t below)
{
    struct test_rng rng = {
        ~grove->seed ^ atomic_fetch_add(&grove->hook_draws, 1)};

    return test_random_below(&rng, below);
}

troupe_ref
grove_anybody(struct node *node)
{
    return grove_ref_of(
        &node->grove->node[grove_draw(node, node->grove->count)]);
}

static troupe_status spawn_node(troupe_self *self, struct node *node);

static void
begin(troupe_self *self, struct being *being, struct grove *grove)
{
    CHECK(grove, being->mark == 0 && being->count == 0 && being->copy == 0);
    being->mark = MARK;
    being->grove = grove;
    being->copy = ~being->count;
    being->self = troupe_self_ref(self);
    atomic_fetch_add(&grove->starts, 1);
}

static troupe_status
start_node(troupe_self *self, void *state, const void *arg)
{
    struct being *being = state;
    struct node *node;
    struct grove *grove;

    memcpy(&node, arg, sizeof node);
    grove = node->grove;
    begin(self, being, grove);
    being->node = node;
    CHECK(grove, atomic_exchange(&node->running, 1) == 0);
    atomic_store(&node->key, troupe_ref_key(being->self));
    grove_ledger_begin(being);
    for (uint32_t i = 0; i < grove->count; i++) {
        struct node *child = &grove->node[i];
        troupe_status status;

        if (child->parent != node->id || child == node) {
            continue;
        }
        status = spawn_node(self, child);
        CHECK(grove,
            status == TROUPE_OK || status == TROUPE_E_CLOSED ||
                (status == TROUPE_E_EXISTS &&
                    (node->options.flags & TROUPE_ACTOR_KEEP_CHILDREN) != 0));
    }
    if (grove_draw(node, 16) == 0 && !atomic_load(&grove->is_calm) &&
        atomic_fetch_add(&grove->bad_starts, 1) < MOST_BAD_STARTS) {
        atomic_store(&node->running, 0);
        if (grove_draw(node, 2) == 0) {
            (void)troupe_fail(self, 1 + (int32_t)grove_draw(node, 4));
        }
        return TROUPE_E_FAILED;
    }
    return TROUPE_OK;
}

static void
end_node(troupe_self *self, void *state, const troupe_exit *why)
{
    struct being *being = state;

    grove_check_state(self, being);
    CHECK(being->grove, troupe_ref_equal(why->actor, being->self));
    grove_being_ends(being, false);
    CHECK(being->grove, atomic_exchange(&being->node->running, 0) == 1);
}

/* Why may be a sibling's failure. */
static void
restart_node(troupe_self *self, void *state, const troupe_exit *why)
{
    struct being *being = state;

    grove_check_state(self, being);
    CHECK(being->grove, why->kind == TROUPE_EXIT_FAILED ||
                            why->kind == TROUPE_EXIT_START_FAILED);
    CHECK(being->grove, !troupe_ref_is_none(why->actor));
    grove_being_ends(being, true);
    CHECK(being->grove, atomic_exchange(&being->node->running, 0) == 1);
}

static troupe_status
start_twig(troupe_self *self, void *state, const void *arg)
{
    struct grove *grove;

    memcpy(&grove, arg, sizeof grove);
    begin(self, state, grove);
    return TROUPE_OK;
}

static troupe_verdict
be_twig(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct being *being = state;

    grove_check_state(self, being);
    if (grove_leaf_of(msg)->what == CALL) {
        atomic_fetch_add(&being->grove->answered, 1);
        return TROUPE_CONTINUE;
    }
    if (atomic_load(&being->grove->is_calm)) {
        return TROUPE_CONTINUE;
    }
    return being->grove->kind == GROVE_MORTAL ? TROUPE_DONE : TROUPE_FAILED;
}

static const troupe_actor_type twig_type = {
    .size = sizeof(troupe_actor_type),
    .name = "twig",
    .state_bytes = sizeof(struct being),
    .receive = be_twig,
    .start = start_twig,
};

static void
grow_twig(troupe_self *self, struct being *being)
{
    struct node *node = being->node;
    struct grove *grove = node->grove;
    troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);
    const struct leaf leaf = {grove, WORK, 0};
    troupe_ref twig;

    /* Boxes of its parent's kind. */
    options.mailbox = node->options.mailbox;
    options.throttle = node->options.throttle;
    options.arg = &grove;
    options.arg_bytes = sizeof grove;
    if (atomic_fetch_add(&grove->twigs, 1) >= MOST_TWIGS ||
        troupe_spawn(self, &twig_type, &options, &twig) != TROUPE_OK) {
        return;
    }
    if (grove_draw(node, 2) == 0) {
        grove_watch_one(self, being, twig);
    }
    for (uint32_t left = 1 + grove_draw(node, 3); left > 0; left--) {
        atomic_fetch_add(&grove->made, 1);
        troupe_tell(self, twig, &leaf_type, &leaf);
    }
}

static void
pass_on(troupe_self *self, struct node *node, uint32_t hops)
{
    struct cargo cargo = grove_load(node, WORK, hops - 1);

    troupe_tell(self, grove_anybody(node), cargo.type, &cargo.branch);
}

static troupe_verdict
judge(troupe_self *self, struct being *being)
{
    struct node *node = being->node;
    struct grove *grove = node->grove;

    switch (grove_draw(node, 16)) {
    case 0:
        grow_twig(self, being);
        return TROUPE_CONTINUE;
    case 1:
    case 2:
    case 3:
        return troupe_fail(self, 1 + (int32_t)grove_draw(node, 5));
    case 4:
        return grove->kind == GROVE_MORTAL ? TROUPE_DONE : TROUPE_UNHANDLED;
    case 5:
        if (grove->kind == GROVE_MORTAL) {
            (void)troupe_stop_now(self, grove_anybody(node));
        }
        return TROUPE_CONTINUE;
    case 6:
        if (grove->kind == GROVE_MORTAL) {
            (void)!troupe_stop(self, troupe_self_ref(self));
            return TROUPE_FAILED;
        }
        return TROUPE_CONTINUE;
    case 7:
        grove_watch_one(self, being, grove_anybody(node));
        return TROUPE_CONTINUE;
    default:
        return TROUPE_CONTINUE;
    }
}

static troupe_verdict
work(troupe_self *self, struct being *being, uint32_t what, uint32_t hops)
{
    troupe_verdict verdict = TROUPE_CONTINUE;

    if (what == SURE) {
        grove_answer(self, being, what, hops);
    }
    if (atomic_load(&being->grove->is_calm)) {
        return TROUPE_CONTINUE;
    }
    if (hops > 0) {
        pass_on(self, being->node, hops);
    }
    for (uint32_t left = grove_draw(being->node, 4);
         left > 0 && !grove_is_tired(being->grove); left--) {
        if (grove_act(self, being, hops > 0 ? hops - 1 : 0, &verdict)) {
            return verdict;
        }
    }
    if (what == ASK && !being->is_away) {
        grove_answer(self, being, what, hops);
    }
    return judge(self, being);
}

/* Some die of it; some hear of it later. */
static troupe_verdict
hear(troupe_self *self, struct being *being, const troupe_exit *end)
{
    CHECK(being->grove, troupe_depth(troupe_self_system(self), end->actor) ==
                            TROUPE_DEPTH_DEAD);
    if (atomic_load(&being->grove->is_calm)) {
        grove_hear(being, end);
        return TROUPE_CONTINUE;
    }
    if (grove_draw(being->node, 4) == 0 && grove_stash(self, being, end)) {
        return TROUPE_CONTINUE;
    }
    grove_hear(being, end);
    return grove_draw(being->node, 2) == 0 ? TROUPE_UNHANDLED : TROUPE_CONTINUE;
}

static troupe_verdict
handle(troupe_self *self, struct being *being, const troupe_msg *msg)
{
    const struct leaf *leaf = grove_leaf_of(msg);
    const struct tick *tick = grove_tick_of(msg);

    switch (troupe_msg_tag(msg)) {
    case TROUPE_TAG_DOWN:
        return hear(self, being, troupe_down(msg));
    case TROUPE_TAG_IDLE:
        return grove_silence(self, being);
    default:
        break;
    }
    if (tick != NULL) {
        return grove_tick(self, being, tick);
    }
    CHECK(being->grove, leaf != NULL);
    if (leaf->what == CALL) {
        atomic_fetch_add(&being->grove->answered, 1);
        return TROUPE_CONTINUE;
    }
    if (leaf->what == AGAIN) {
        being->goes_on = false;
        CHECK(being->grove, ++being->rounds < 10000);
        return TROUPE_CONTINUE;
    }
    return work(self, being, leaf->what, leaf->hops);
}

static troupe_verdict
be_node(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct being *being = state;
    uint64_t began_ns = troupe_now_ns(troupe_self_system(self));
    troupe_verdict verdict;

    grove_check_state(self, being);
    CHECK(being->grove, !being->is_awaiting);
    being->count++;
    being->copy = ~being->count;
    being->is_away = false;
    verdict = handle(self, being, msg);
    if (!being->is_away) {
        being->active_ns = began_ns;
    }
    if (atomic_load(&being->grove->is_calm)) {
        grove_drain_stash(self, being);
    }
    return verdict;
}

static const troupe_actor_type node_type = {
    .size = sizeof(troupe_actor_type),
    .name = "node",
    .state_bytes = sizeof(struct being),
    .receive = be_node,
    .start = start_node,
    .stop = end_node,
    .restart = restart_node,
};

static troupe_status
spawn_node(troupe_self *self, struct node *node)
{
    troupe_spawn_options options = node->options;
    troupe_ref ref;

    options.arg = &node;
    options.arg_bytes = sizeof node;
    return self != NULL ? troupe_spawn(self, &node_type, &options, &ref)
                        : troupe_system_spawn(
                              node->grove->system, &node_type, &options, &ref);
}

/* --- how they are drawn --------------------------------------------------- */

static troupe_directive
draw_directive(struct test_rng *rng, const struct node *node)
{
    static const troupe_directive some[] = {TROUPE_DIRECTIVE_RESTART,
        TROUPE_DIRECTIVE_RESTART, TROUPE_DIRECTIVE_RESUME,
        TROUPE_DIRECTIVE_ESCALATE, TROUPE_DIRECTIVE_STOP};
    uint32_t most = node->grove->kind == GROVE_MORTAL ? 5
                    : node->parent == node->id        ? 3
                                                      : 4;

    return some[test_random_below(rng, most)];
}

static void
draw_supervision(
    struct test_rng *rng, struct node *node, troupe_supervision *how)
{
    static const uint32_t budgets[] = {
        TROUPE_RESTARTS_NONE, 1, 3, 0, TROUPE_RESTARTS_UNLIMITED};

    how->size = sizeof *how;
    how->scope = test_random_below(rng, 3) == 0 ? TROUPE_SCOPE_ALL_FOR_ONE
                                                : TROUPE_SCOPE_ONE_FOR_ONE;
    how->rules = node->rules;
    how->rule_count = 4;
    how->otherwise = draw_directive(rng, node);
    how->max_restarts = node->grove->kind == GROVE_LIVING
                            ? TROUPE_RESTARTS_UNLIMITED
                            : budgets[test_random_below(rng, 5)];
    how->window_ns =
        test_random_below(rng, 2) == 0 ? TROUPE_FOREVER : TROUPE_MS(1);
    how->give_up = test_random_below(rng, 2) == 0 ? TROUPE_GIVE_UP_STOP
                                                  : TROUPE_GIVE_UP_ESCALATE;
    how->backoff = test_random_below(rng, 4) == 0 ? &node->backoff : NULL;
}

static void
draw_node(struct test_rng *rng, struct node *node)
{
    bool is_root = node->id == 0 || test_random_below(rng, 6) == 0;

    node->parent = is_root ? node->id : test_random_below(rng, node->id);
    (void)snprintf(node->name, sizeof node->name, "n%u", node->id % 100);
    for (int i = 0; i < 4; i++) {
        node->rules[i] = (troupe_rule){i + 1, i + 1, draw_directive(rng, node)};
    }
    node->backoff = (troupe_backoff){.size = sizeof node->backoff,
        .min_ns = TROUPE_US(50),
        .max_ns = TROUPE_MS(2)};
    draw_supervision(rng, node, &node->children);
    draw_supervision(rng, node, &node->own);
    node->options.size = sizeof node->options;
    node->options.name = node->name;
    node->options.throughput = test_random_below(rng, 2);
    node->stashes_ticks = test_random_below(rng, 3) == 0;
    grove_draw_boxes(
        rng, node->grove, &node->options, &node->mailbox, &node->throttle);
    if (test_random_below(rng, 3) == 0) {
        node->options.flags |= TROUPE_ACTOR_KEEP_CHILDREN;
    }
    if (test_random_below(rng, 3) == 0) {
        node->options.flags |= TROUPE_ACTOR_DEATH_PACT;
    }
    /* The rules of its children may escalate; at a root nobody would be there.
     */
    node->options.children = &node->children;
    if (is_root || test_random_below(rng, 2) == 0) {
        node->options.own = &node->own;
    }
}

/* What a root's own children do is up to rules that are not a root's. */
static void
let_children_escalate(struct test_rng *rng, struct node *node)
{
    if (node->parent == node->id && test_random_below(rng, 2) == 0) {
        node->children.rules = NULL;
        node->children.rule_count = 0;
        node->children.otherwise = TROUPE_DIRECTIVE_ESCALATE;
    }
}

struct grove *
grove_plant(troupe_system *system, uint64_t seed, enum grove_kind kind)
{
    struct grove *grove = calloc(1, sizeof *grove);
    struct test_rng rng = {seed};

    test_require(grove != NULL);
    grove->system = system;
    grove->seed = seed;
    grove->kind = kind;
    test_require(troupe_port_open(system, NULL, &grove->port) == TROUPE_OK);
    grove->count = 1 + test_random_below(&rng, MOST_NODES);
    for (uint32_t i = 0; i < grove->count; i++) {
        grove->node[i].grove = grove;
        grove->node[i].id = i;
        draw_node(&rng, &grove->node[i]);
        let_children_escalate(&rng, &grove->node[i]);
    }
    for (uint32_t i = 0; i < grove->count; i++) {
        if (grove->node[i].parent == i) {
            troupe_status status = spawn_node(NULL, &grove->node[i]);

            CHECK(grove, status == TROUPE_OK || status == TROUPE_E_CLOSED);
        }
    }
    return grove;
}

/* --- from outside --------------------------------------------------------- */

static struct node *
draw_any(struct grove *grove, struct test_rng *rng)
{
    return &grove->node[test_random_below(rng, grove->count)];
}

void
grove_shake(struct grove *grove, struct test_rng *rng, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        troupe_ref to = grove_ref_of(draw_any(grove, rng));

        if (troupe_ref_is_none(to)) {
            continue;
        }
        switch (grove->kind == GROVE_MORTAL ? test_random_below(rng, 32) : 2) {
        case 0:
            (void)!troupe_post_stop(grove->system, to);
            break;
        case 1:
            (void)!troupe_post_stop_now(grove->system, to);
            break;
        default:
            post(
                grove, &leaf_type, to, WORK, test_random_below(rng, MOST_HOPS));
            break;
        }
    }
}

static uint32_t
place_of(const struct grove *grove, troupe_ref ref)
{
    uint32_t i = 0;

    while (
        i < grove->watched_count && !troupe_ref_equal(grove->watched[i], ref)) {
        i++;
    }
    return i;
}

void
grove_watch(struct grove *grove, struct test_rng *rng, uint32_t count)
{
    if (grove->port == NULL) {
        test_require(
            troupe_port_open(grove->system, NULL, &grove->port) == TROUPE_OK);
    }
    for (uint32_t i = 0; i < count && grove->watched_count < MOST_WATCHED;
         i++) {
        troupe_ref whom = grove_ref_of(draw_any(grove, rng));

        if (troupe_ref_is_none(whom) ||
            place_of(grove, whom) < grove->watched_count) {
            continue;
        }
        test_require(troupe_port_watch(grove->port, whom) == TROUPE_OK);
        grove->watched[grove->watched_count++] = whom;
    }
}

static bool
is_awake(const troupe_actor_info *info, void *user)
{
    bool *all = user;

    *all = *all && info->state != TROUPE_STATE_SUSPENDED &&
           info->state != TROUPE_STATE_STARTING;
    return *all;
}

bool
grove_is_awake(const struct grove *grove)
{
    bool all = true;

    (void)troupe_inspect(grove->system, NULL, is_awake, &all);
    return all;
}

static bool
call(const troupe_actor_info *info, void *user)
{
    struct grove *grove = user;

    if (info->type[0] != '\0') {
        atomic_fetch_add(&grove->called, 1);
        post(grove, &kept_type, info->actor, CALL, 0);
    }
    return true;
}

void
grove_calm(struct grove *grove)
{
    atomic_store(&grove->is_calm, true);
}

static troupe_counters
counters_of(const struct grove *grove)
{
    troupe_counters counters = TROUPE_INIT(troupe_counters);

    test_require(troupe_counters_read(grove->system, &counters) == TROUPE_OK);
    return counters;
}

bool
grove_is_settled(struct grove *grove)
{
    troupe_counters now = counters_of(grove);

    return now.timers == 0 && now.asks == 0 && grove_is_awake(grove);
}

static void
read_notices(struct grove *grove)
{
    const troupe_msg *msg;

    while ((msg = troupe_port_next(grove->port)) != NULL) {
        uint32_t place = place_of(grove, troupe_down(msg)->actor);

        CHECK(grove, place < grove->watched_count);
        grove->notices[place]++;
    }
}

bool
grove_is_done(struct grove *grove)
{
    read_notices(grove);
    return atomic_load(&grove->called) == atomic_load(&grove->answered) &&
           counters_of(grove).queued == 0;
}

void
grove_call_all(struct grove *grove)
{
    (void)troupe_inspect(grove->system, NULL, call, grove);
}

void
grove_check_all(struct grove *grove)
{
    troupe_counters now = counters_of(grove);

    if (!grove_is_done(grove) || now.timers + now.asks != 0) {
        (void)fprintf(stderr, "%llu queued, %llu timers, %llu asks\n",
            (unsigned long long)now.queued, (unsigned long long)now.timers,
            (unsigned long long)now.asks);
        troupe_dump(grove->system, 2);
    }
    CHECK(grove, atomic_load(&grove->called) == atomic_load(&grove->answered));
    CHECK(grove, now.queued == 0 && now.timers == 0 && now.asks == 0);
    for (uint32_t i = 0; i < grove->count; i++) {
        if (atomic_load(&grove->node[i].running) != 0) {
            grove_check_ledger(grove, &grove->node[i]);
        }
    }
}

void
grove_check_stopped(const struct grove *grove)
{
    troupe_counters now = counters_of(grove);

    CHECK(grove, now.actors == 0 && now.queued == 0 && now.asks == 0);
    CHECK(grove, atomic_load(&grove->begun) == atomic_load(&grove->ended));
}

/* --- a whole life in a simulation ----------------------------------------- */

static void
run_part(struct grove *grove, struct test_rng *rng)
{
    troupe_status status =
        troupe_system_run(grove->system, 1 + test_random_below(rng, 40), NULL);

    CHECK(grove, status == TROUPE_OK || status == TROUPE_E_CLOSED);
}

/* A second after the other. */
static void
advance_until(struct grove *grove, bool (*is_so)(struct grove *grove))
{
    uint64_t end_ns = troupe_now_ns(grove->system) + TROUPE_S(100);

    CHECK(grove, troupe_system_run(grove->system, 0, NULL) == TROUPE_OK);
    while (!is_so(grove) && troupe_now_ns(grove->system) < end_ns) {
        CHECK(grove,
            troupe_system_advance(grove->system, TROUPE_S(1)) == TROUPE_OK);
    }
}

static void
bring_to_rest(struct grove *grove, struct test_rng *rng)
{
    if (test_random_below(rng, 2) == 0) {
        advance_until(grove, grove_is_settled);
    }
    grove_calm(grove);
    advance_until(grove, grove_is_settled);
    grove_call_all(grove);
    advance_until(grove, grove_is_done);
    grove_check_all(grove);
}

void
grove_live_driven(struct grove *grove, struct test_rng *rng)
{
    for (uint32_t i = 0; i < 8; i++) {
        run_part(grove, rng);
        grove_watch(grove, rng, 3);
        grove_shake(grove, rng, test_random_below(rng, 6));
        if (test_random_below(rng, 4) == 0) {
            CHECK(grove, troupe_system_advance(grove->system, TROUPE_US(500)) ==
                             TROUPE_OK);
        }
    }
    if (grove->kind == GROVE_LIVING) {
        bring_to_rest(grove, rng);
    } else if (test_random_below(rng, 2) == 0) {
        troupe_system_request_stop(grove->system);
        run_part(grove, rng);
    }
}

uint64_t
grove_starts(const struct grove *grove)
{
    return atomic_load(&grove->starts);
}

void
grove_check_notices(struct grove *grove)
{
    if (grove->port != NULL) {
        read_notices(grove);
    }
    for (uint32_t i = 0; i < grove->watched_count; i++) {
        CHECK(grove, grove->notices[i] == 1);
    }
    troupe_port_close(grove->port);
    grove->port = NULL;
}

void
grove_free(struct grove *grove)
{
    CHECK(grove, atomic_load(&grove->made) == atomic_load(&grove->dropped));
    for (uint32_t i = 0; i < grove->count; i++) {
        CHECK(grove, atomic_load(&grove->node[i].running) == 0);
    }
    free(grove);
}
