/* SPDX-License-Identifier: MIT */

/* Two questions in a row, then an answer; a slow payment is cancelled. */
#include <troupe/troupe.h>

#include <stdlib.h>

enum { TAG_BUY = 1, TAG_RESERVE, TAG_CHARGE, TAG_DONE, TAG_GIVE_UP };

struct basket {
    uint64_t article;
    uint32_t count;
    uint32_t reserved;
};

TROUPE_MSG_TYPE(reserve, struct basket, TAG_RESERVE);
TROUPE_MSG_TYPE(charge, struct basket, TAG_CHARGE);
TROUPE_MSG_TYPE_EMPTY(done, TAG_DONE);
TROUPE_MSG_TYPE_EMPTY(give_up, TAG_GIVE_UP);

struct checkout {
    troupe_ref stock;
    troupe_ref bank;
    troupe_ticket paying;
};

static troupe_verdict
on_charged(
    troupe_self *self, void *state, const troupe_result *result, void *user)
{
    struct checkout *checkout = state;
    struct basket *basket = user;

    checkout->paying = (troupe_ticket){0};
    troupe_timer_cancel(self, basket->article);
    if (result->status == TROUPE_OK) {
        troupe_reply(self, &done, NULL);
    } else {
        troupe_reply_failure(self, (int32_t)result->status);
    }
    free(basket); /* runs exactly once, so here and only here */
    return TROUPE_CONTINUE;
}

static troupe_verdict
on_reserved(
    troupe_self *self, void *state, const troupe_result *result, void *user)
{
    struct checkout *checkout = state;
    struct basket *basket = user;
    troupe_status status = result->status;

    if (status == TROUPE_OK) {
        status = troupe_ask(self, checkout->bank, &charge, basket, TROUPE_S(2),
            troupe_then(on_charged, basket), &checkout->paying);
    }
    if (status == TROUPE_OK) {
        return troupe_check(self, troupe_timer_once(self, basket->article,
                                      &give_up, NULL, TROUPE_MS(500)));
    }
    free(basket);
    troupe_reply_failure(self, (int32_t)status);
    return TROUPE_CONTINUE;
}

static troupe_verdict
on_buy(troupe_self *self, struct checkout *checkout, const troupe_msg *msg)
{
    struct basket *basket = malloc(sizeof *basket);
    troupe_status status;

    if (basket == NULL) {
        return troupe_fail(self, TROUPE_E_NOMEM);
    }
    *basket = *troupe_payload(msg, struct basket);
    status = troupe_ask(self, checkout->stock, &reserve, basket,
        TROUPE_TIMEOUT_DEFAULT, troupe_then(on_reserved, basket), NULL);
    if (status != TROUPE_OK) {
        free(basket);
    }
    return troupe_check(self, status);
}

static troupe_verdict
checkout_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct checkout *checkout = state;

    switch (troupe_msg_tag(msg)) {
    case TAG_BUY:
        return on_buy(self, checkout, msg);
    case TAG_GIVE_UP:
        troupe_cancel(self, checkout->paying);
        return TROUPE_CONTINUE;
    default:
        return TROUPE_UNHANDLED;
    }
}

const troupe_actor_type checkout_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "checkout",
    .state_bytes = sizeof(struct checkout),
    .receive = checkout_receive,
};
