/* SPDX-License-Identifier: MIT */
/*
 * A shop that is closed handles no orders. They become dead letters: a watchman
 * hears of each, main() lists what was kept and, once the shop is open, sends
 * it again.
 */
#include <troupe/troupe.h>

#include <stdio.h>
#include <stdlib.h>

enum { TAG_ORDER = 1, TAG_OPEN };

struct order {
    uint32_t number;
};

TROUPE_MSG_TYPE(order, struct order, TAG_ORDER);
TROUPE_MSG_TYPE_EMPTY(open_it, TAG_OPEN);

/* --- the shop ------------------------------------------------------------- */

static troupe_verdict
shop_is_open(troupe_self *self, void *state, const troupe_msg *msg)
{
    const struct order *what;

    (void)self;
    (void)state;
    if (!troupe_msg_is(msg, &order)) {
        return TROUPE_UNHANDLED;
    }
    what = troupe_payload(msg, struct order);
    printf("shop: order %u\n", (unsigned)what->number);
    return TROUPE_CONTINUE;
}

static troupe_verdict
shop_is_closed(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)state;
    if (!troupe_msg_is(msg, &open_it)) {
        return TROUPE_UNHANDLED; /* a dead letter, and on we go */
    }
    troupe_become(self, shop_is_open);
    return TROUPE_CONTINUE;
}

static const troupe_actor_type shop_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "shop",
    .receive = shop_is_closed,
};

/* --- the watchman --------------------------------------------------------- */

static troupe_status
watchman_start(troupe_self *self, void *state, const void *arg)
{
    (void)state;
    (void)arg;
    return troupe_subscribe(self, TROUPE_TAG_DEAD_LETTER, NULL, NULL);
}

static troupe_verdict
watchman_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    const troupe_dead_letter *letter;

    (void)self;
    (void)state;
    if (troupe_msg_tag(msg) != TROUPE_TAG_DEAD_LETTER) {
        return TROUPE_UNHANDLED;
    }
    letter = troupe_payload(msg, troupe_dead_letter);
    printf("watchman: %s was %s\n", letter->msg->type->name,
        troupe_dead_reason_name(letter->reason));
    return TROUPE_CONTINUE;
}

static const troupe_actor_type watchman_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "watchman",
    .receive = watchman_receive,
    .start = watchman_start,
};

/* --- main ----------------------------------------------------------------- */

/* Newest first. */
static bool
print_letter(const troupe_dead_letter_entry *entry, void *user)
{
    const struct order *what = troupe_payload(entry->letter.msg, struct order);

    (void)user;
    if (what != NULL) { /* NULL: a payload that could not be kept */
        printf("letter %u: order %u to %s\n", (unsigned)entry->id,
            (unsigned)what->number, entry->recipient_path);
    }
    return true;
}

static bool
send_again(const troupe_dead_letter_entry *entry, void *user)
{
    troupe_system *system = user;
    troupe_status status =
        troupe_dead_letters_replay(system, entry->id, TROUPE_NONE);

    if (status != TROUPE_OK) {
        printf(
            "letter %u: %s\n", (unsigned)entry->id, troupe_status_text(status));
    }
    return true;
}

static troupe_status
run(troupe_system *system)
{
    troupe_dead_letter_filter to_shop = TROUPE_INIT(troupe_dead_letter_filter);
    troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);
    troupe_ref shop, watchman;
    troupe_status status =
        troupe_system_spawn(system, &watchman_type, NULL, &watchman);

    options.name = "shop";
    if (status == TROUPE_OK) {
        status = troupe_system_spawn(system, &shop_type, &options, &shop);
    }
    if (status == TROUPE_OK) { /* the watchman has subscribed */
        status = troupe_system_await_idle(system, TROUPE_S(10));
    }
    for (uint32_t i = 1; i <= 3 && status == TROUPE_OK; i++) {
        const struct order what = {i};

        status = troupe_post(system, shop, &order, &what);
    }
    if (status == TROUPE_OK) {
        status = troupe_system_await_idle(system, TROUPE_S(10));
    }
    to_shop.subtree = "/user/shop";
    if (status == TROUPE_OK) {
        status = troupe_dead_letters_list(system, &to_shop, print_letter, NULL);
    }
    if (status == TROUPE_OK) {
        status = troupe_post(system, shop, &open_it, NULL);
    }
    if (status == TROUPE_OK) {
        status = troupe_dead_letters_list(system, &to_shop, send_again, system);
    }
    if (status == TROUPE_OK) {
        status = troupe_system_await_idle(system, TROUPE_S(10));
    }
    if (status == TROUPE_OK) {
        printf("%zu letters left\n", troupe_dead_letters_clear(system));
    }
    return status;
}

int
main(void)
{
    static const troupe_dead_letter_options store = {
        .size = TROUPE_OPTIONS(troupe_dead_letter_options),
        .capacity = 1000,
    };
    troupe_system_options options = TROUPE_INIT(troupe_system_options);
    troupe_system *system = NULL;
    char why[160];
    troupe_status status;

    options.name = "street";
    options.dead_letters = &store;
    options.log.max_level = TROUPE_LOG_ERROR; /* the first one is a warning */
    status = troupe_system_create(&options, &system);
    if (status == TROUPE_OK) {
        status = run(system);
    }
    if (status != TROUPE_OK) {
        troupe_explain(status, why, sizeof why);
        fprintf(stderr, "dead_letters: %s\n", why);
    }
    troupe_system_destroy(system);
    return status == TROUPE_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
