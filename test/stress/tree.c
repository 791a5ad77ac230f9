/* SPDX-License-Identifier: MIT */

/*
 * Named children come and go below several actors while threads look them up,
 * ask for paths, inspect, dump and read counters. A name leads to the actor
 * that has it or to nobody; a path is that of the actor or empty. The children
 * have mailboxes of every kind, and stash, so that rules change hands with the
 * cells while others read depths.
 */
#include "stress.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PARENTS = 4, NAMES = 6, WATCHERS = 4 };

TROUPE_MSG_TYPE_EMPTY(go, 1);

struct tree {
    troupe_system *system;
    _Atomic bool over;
    _Atomic uint64_t spawned;
    _Atomic uint64_t refused;
    int null_fd;
};

struct parent {
    struct tree *tree;
    uint32_t id;
    uint32_t left;
    struct test_rng rng;
    pthread_t thread;
};

static void
child_name(char *text, size_t bytes, uint32_t parent, uint32_t child)
{
    (void)snprintf(text, bytes, "p%uc%u", parent, child);
}

/* A child knows its own name and checks that it has that path. */
struct child {
    char path[64];
    uint32_t handled;
};

static troupe_status
start_child(troupe_self *self, void *state, const void *arg)
{
    struct child *child = state;
    char path[128];

    memcpy(child, arg, sizeof *child);
    (void)troupe_path(
        troupe_self_system(self), troupe_self_ref(self), path, sizeof path);
    STRESS_CHECK(
        strstr(path, child->path) != NULL, "%s is not %s", path, child->path);
    return TROUPE_OK;
}

static troupe_verdict
be_child(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct child *child = state;
    troupe_status status = TROUPE_OK;

    (void)msg;
    child->handled++;
    if (child->handled % 3 == 0) {
        status = troupe_stash(self);
    } else if (child->handled % 4 == 0) {
        status = troupe_unstash(self, 0);
    }
    STRESS_CHECK(status == TROUPE_OK || status == TROUPE_E_LIMIT ||
                     status == TROUPE_E_FULL,
        "%s", troupe_status_name(status));
    return TROUPE_CONTINUE;
}

static double
rank_alike(const troupe_msg *msg, void *user)
{
    (void)msg;
    (void)user;
    return 0;
}

/* One of each kind; the first is the default. */
static troupe_mailbox_options
draw_mailbox(struct test_rng *rng)
{
    troupe_mailbox_options mailbox = TROUPE_INIT(troupe_mailbox_options);

    switch (test_random_below(rng, 5)) {
    case 0:
        break;
    case 1:
        mailbox.priority = rank_alike;
        mailbox.capacity = test_random_below(rng, 3);
        mailbox.overflow =
            mailbox.capacity != 0 ? TROUPE_OVERFLOW_DROP_LOWEST : 0;
        break;
    default:
        mailbox.capacity = 1 + test_random_below(rng, 4);
        mailbox.overflow = (troupe_overflow)test_random_below(rng, 3);
    }
    return mailbox;
}

static const troupe_actor_type child_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "child",
    .state_bytes = sizeof(struct child),
    .receive = be_child,
    .start = start_child,
};

static void
change_one(struct parent *parent, troupe_self *self)
{
    uint32_t n = test_random_below(&parent->rng, NAMES);
    char name[32];
    struct child child;
    troupe_ref ref;

    child_name(name, sizeof name, parent->id, n);
    ref = troupe_child(self, name);
    /* Now and then a second one of that name is asked for. */
    if (!troupe_ref_is_none(ref) && test_random_below(&parent->rng, 4) != 0) {
        (void)(test_random_below(&parent->rng, 2) == 0
                   ? troupe_stop(self, ref)
                   : troupe_stop_now(self, ref));
        return;
    }
    memset(&child, 0, sizeof child);
    (void)snprintf(
        child.path, sizeof child.path, "/user/p%u/%s", parent->id, name);
    {
        troupe_mailbox_options mailbox = draw_mailbox(&parent->rng);
        const troupe_throttle_options throttle = {
            .size = TROUPE_OPTIONS(troupe_throttle_options),
            .per_second = 1e4,
            .burst = 1,
            .on_excess = (troupe_excess)test_random_below(&parent->rng, 2)};
        const troupe_spawn_options options = {
            .size = TROUPE_OPTIONS(troupe_spawn_options),
            .name = name,
            .arg = &child,
            .arg_bytes = sizeof child,
            .mailbox = &mailbox,
            .throttle =
                test_random_below(&parent->rng, 4) == 0 ? &throttle : NULL,
            .stash_capacity = 2,
        };
        troupe_ref old = ref;
        troupe_status status = troupe_spawn(self, &child_type, &options, &ref);

        STRESS_CHECK(status == TROUPE_OK || status == TROUPE_E_EXISTS, "%s",
            troupe_status_name(status));
        STRESS_CHECK(status == TROUPE_OK || troupe_ref_equal(ref, old),
            "the ref was touched");
        if (status == TROUPE_OK) {
            atomic_fetch_add(&parent->tree->spawned, 1);
            troupe_tell(self, ref, &go, NULL);
        }
    }
}

static troupe_verdict
be_parent(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct parent *parent = STRESS_STATE(struct parent, state);
    troupe_ref children[NAMES];

    (void)msg;
    for (uint32_t i = 0; i < 4; i++) {
        change_one(parent, self);
    }
    STRESS_CHECK(troupe_children(self, children, NAMES) <= NAMES,
        "more children than names");
    stress_jitter(&parent->rng);
    if (--parent->left > 0) {
        troupe_tell(self, troupe_self_ref(self), &go, NULL);
    }
    return TROUPE_CONTINUE;
}

static const troupe_actor_type parent_type = STRESS_ACTOR(be_parent);

struct visit {
    uint64_t count;
    struct test_rng rng;
};

static bool
visit(const troupe_actor_info *info, void *user)
{
    struct visit *visit = user;

    visit->count++;
    STRESS_CHECK(strncmp(info->path, "troupe://troupe/", 16) == 0, "path %s",
        info->path);
    if (strcmp(info->type, "child") == 0) {
        unsigned owner;
        unsigned below;
        unsigned n;

        STRESS_CHECK(sscanf(info->path, "troupe://troupe/user/p%u/p%uc%u",
                         &owner, &below, &n) == 3 &&
                         owner == below && owner < PARENTS && n < NAMES,
            "path %s", info->path);
    }
    return test_random_below(&visit->rng, 50) != 0;
}

static void
look_up(struct parent *self)
{
    uint32_t owner = test_random_below(&self->rng, PARENTS);
    uint32_t n = test_random_below(&self->rng, NAMES);
    char path[64];
    char found[128];
    troupe_ref ref = TROUPE_NONE;
    troupe_status status;

    (void)snprintf(path, sizeof path, "/user/p%u/p%uc%u", owner, owner, n);
    status = troupe_lookup(self->tree->system, path, &ref);
    STRESS_CHECK(status == TROUPE_OK || status == TROUPE_E_MISSING, "%s",
        troupe_status_name(status));
    if (status != TROUPE_OK) {
        return;
    }
    (void)troupe_path(self->tree->system, ref, found, sizeof found);
    STRESS_CHECK(found[0] == '\0' || strstr(found, path) != NULL, "%s at %s",
        found, path);
    (void)troupe_depth(self->tree->system, ref);
    status = troupe_post(self->tree->system, ref, &go, NULL);
    STRESS_CHECK(status == TROUPE_OK || status == TROUPE_E_DEAD ||
                     status == TROUPE_E_CLOSED || status == TROUPE_E_FULL,
        "%s", troupe_status_name(status));
    if (status != TROUPE_OK) {
        atomic_fetch_add(&self->tree->refused, 1);
    }
}

static void *
watch(void *user)
{
    struct parent *self = user;
    struct tree *tree = self->tree;

    while (!atomic_load(&tree->over)) {
        struct visit seen = {0, {test_random(&self->rng)}};
        troupe_status status;
        troupe_counters counters;

        switch (test_random_below(&self->rng, 16)) {
        case 0:
            status = troupe_inspect(tree->system, NULL, visit, &seen);
            STRESS_CHECK(status == TROUPE_OK, "%s", troupe_status_name(status));
            break;
        case 1:
            status = troupe_inspect(tree->system, "/user/p0", visit, &seen);
            /* Gone with the system, perhaps. */
            STRESS_CHECK(status == TROUPE_OK || status == TROUPE_E_MISSING,
                "%s", troupe_status_name(status));
            break;
        case 2:
            troupe_dump(tree->system, tree->null_fd);
            break;
        case 3:
            counters = stress_counters(tree->system);
            STRESS_CHECK(counters.actors <= counters.started,
                "%" PRIu64 " actors", counters.actors);
            break;
        default:
            look_up(self);
            break;
        }
    }
    return NULL;
}

static uint64_t
run(struct test_rng *rng)
{
    troupe_system_options options = stress_options(stress_workers(rng));
    uint32_t threads = stress_threads(rng, WATCHERS);
    struct tree *tree = stress_zeroed(1, sizeof *tree);
    struct parent parents[PARENTS];
    struct parent watchers[WATCHERS];
    uint64_t refused;
    uint64_t spawned;

    tree->null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    tree->system = stress_open(&options);
    for (uint32_t i = 0; i < PARENTS; i++) {
        struct parent *what = &parents[i];
        char name[16];
        const troupe_spawn_options spawn = {
            .size = TROUPE_OPTIONS(troupe_spawn_options),
            .name = name,
            .arg = &what,
            .arg_bytes = sizeof what,
        };
        troupe_ref ref = TROUPE_NONE;

        parents[i] = (struct parent){.tree = tree, .id = i};
        parents[i].left = 200 + test_random_below(rng, 1000);
        parents[i].rng.state = test_random(rng);
        (void)snprintf(name, sizeof name, "p%u", i);
        STRESS_CHECK(troupe_system_spawn(
                         tree->system, &parent_type, &spawn, &ref) == TROUPE_OK,
            "a parent");
        STRESS_CHECK(
            troupe_post(tree->system, ref, &go, NULL) == TROUPE_OK, "go");
    }
    for (uint32_t i = 0; i < threads; i++) {
        watchers[i] = (struct parent){.tree = tree};
        watchers[i].rng.state = test_random(rng);
        stress_thread(&watchers[i].thread, watch, &watchers[i]);
    }
    for (uint32_t i = 0; i < PARENTS; i++) {
        /* Until it has done all its turns. */
        stress_await_idle(tree->system);
    }
    STRESS_CHECK(stress_counters(tree->system).actors <= PARENTS * (1 + NAMES),
        "more actors than names");
    if (test_random_below(rng, 2) == 0) {
        STRESS_CHECK(troupe_system_stop(tree->system) == TROUPE_OK, "a stop");
    }
    atomic_store(&tree->over, true);
    for (uint32_t i = 0; i < threads; i++) {
        stress_join(watchers[i].thread);
    }
    refused = stress_counters(tree->system).refused;
    STRESS_CHECK(refused == atomic_load(&tree->refused),
        "%" PRIu64 " refused, seen %" PRIu64, refused,
        atomic_load(&tree->refused));
    stress_close(tree->system);
    (void)close(tree->null_fd);
    spawned = atomic_load(&tree->spawned);
    free(tree);
    return spawned;
}

int
main(int argc, char **argv)
{
    struct test_rng rng;
    uint64_t spawned = 0;

    stress_begin(argc, argv);
    while (stress_more(&rng)) {
        spawned += run(&rng);
    }
    return stress_end(spawned, "named children");
}
