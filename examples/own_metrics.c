/* SPDX-License-Identifier: MIT */

/*
 * Metrics of one's own beside the stock ones: a counter and a histogram, used
 * by an actor; then the text that a scraper would get, cut down to what begins
 * with "shop_".
 */
#include <troupe/troupe.h>

#include <stdio.h>
#include <string.h>

enum { TAG_ORDER = 1 };

struct order {
    double amount;
};

TROUPE_MSG_TYPE(order, struct order, TAG_ORDER);

struct shop {
    troupe_series orders;
    troupe_series amount;
};

static const char *const labels[] = {"shop", NULL};
static const double bounds[] = {1, 10, 100, 1000};

static const troupe_metric_options orders_total = {
    .size = TROUPE_OPTIONS(troupe_metric_options),
    .name = "shop_orders_total",
    .help = "orders taken",
    .kind = TROUPE_METRIC_COUNTER,
    .labels = labels,
};
static const troupe_metric_options order_amount = {
    .size = TROUPE_OPTIONS(troupe_metric_options),
    .name = "shop_order_amount",
    .help = "value of an order",
    .kind = TROUPE_METRIC_HISTOGRAM,
    .labels = labels,
    .bounds = bounds,
    .bound_count = 4,
};

/* The series are looked up once, and kept. */
static troupe_status
shop_start(troupe_self *self, void *state, const void *arg)
{
    static const char *const values[] = {"north", NULL};
    struct shop *shop = state;
    troupe_system *system = troupe_self_system(self);
    troupe_status status =
        troupe_metric_series(system, &orders_total, values, &shop->orders);

    (void)arg;
    return status != TROUPE_OK ? status
                               : troupe_metric_series(system, &order_amount,
                                     values, &shop->amount);
}

static troupe_verdict
shop_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct shop *shop = state;
    troupe_system *system = troupe_self_system(self);

    if (!troupe_msg_is(msg, &order)) {
        return TROUPE_UNHANDLED;
    }
    troupe_metric_add(system, shop->orders, 1);
    troupe_metric_observe(
        system, shop->amount, troupe_payload(msg, struct order)->amount);
    return TROUPE_CONTINUE;
}

static const troupe_actor_type shop_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "shop",
    .state_bytes = sizeof(struct shop),
    .receive = shop_receive,
    .start = shop_start,
};

struct text {
    char bytes[65536];
    size_t used;
};

/* Pieces end anywhere, also within a line. */
static bool
collect(const char *piece, size_t bytes, void *user)
{
    struct text *text = user;

    if (bytes >= sizeof text->bytes - text->used) {
        return false;
    }
    memcpy(text->bytes + text->used, piece, bytes);
    text->used += bytes;
    text->bytes[text->used] = '\0';
    return true;
}

int
main(void)
{
    static struct text text;
    static const struct order orders[] = {{5}, {10}, {99.5}};
    troupe_system_options options = TROUPE_INIT(troupe_system_options);
    troupe_system *system;
    troupe_ref shop;

    options.metrics = TROUPE_SWITCH_ON; /* or TROUPE_METRICS=on */
    if (troupe_system_create(&options, &system) != TROUPE_OK ||
        troupe_system_spawn(system, &shop_type, NULL, &shop) != TROUPE_OK) {
        return 1;
    }
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        troupe_post_tell(system, shop, &order, &orders[i]);
    }
    if (troupe_system_await_idle(system, TROUPE_S(10)) != TROUPE_OK ||
        troupe_metrics_write(
            system, TROUPE_METRICS_PROMETHEUS, collect, &text) != TROUPE_OK) {
        return 1;
    }
    for (char *line = strtok(text.bytes, "\n"); line != NULL;
         line = strtok(NULL, "\n")) {
        if (strstr(line, "shop_") != NULL) {
            puts(line);
        }
    }
    return troupe_system_destroy(system) == TROUPE_OK ? 0 : 1;
}
