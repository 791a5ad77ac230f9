/* SPDX-License-Identifier: MIT */

/*
 * Scrapes while actors come and go, make series, overflow them, count, drop
 * and fail. At the end every number is that of the program's own books.
 */
#include "stress.h"

#include "support/scrape.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BREEDERS = 4, BROODS = 60, BROOD = 8, SCRAPERS = 2, LABELS = 40 };

TROUPE_MSG_TYPE_EMPTY(go, 1);
TROUPE_MSG_TYPE_EMPTY(work, 2);
TROUPE_MSG_TYPE_EMPTY(fall, 3);

struct zoo {
    troupe_system *system;
    uint32_t max_series;
    _Atomic uint64_t seeds;
    _Atomic uint64_t children; /* born */
    _Atomic uint64_t counted;  /* adds, and observations */
    _Atomic uint64_t falls;
    _Atomic uint64_t dropped;
    _Atomic bool over;
};

static void
count_one(struct zoo *zoo, struct test_rng *rng)
{
    static const char *const labels[] = {"kind", NULL};
    char label[16];
    const char *const values[] = {label, NULL};
    troupe_metric_options options = TROUPE_INIT(troupe_metric_options);
    troupe_series series;
    troupe_status status;

    options.name = "zoo_counted_total";
    options.labels = labels;
    options.max_series = zoo->max_series;
    (void)snprintf(
        label, sizeof label, "k%u", (unsigned)test_random_below(rng, LABELS));
    status = troupe_metric_series(zoo->system, &options, values, &series);
    STRESS_CHECK(status == TROUPE_OK, "%s", troupe_status_name(status));
    troupe_metric_add(zoo->system, series, 1);
    options = (troupe_metric_options){.size = sizeof options,
        .name = "zoo_seconds",
        .kind = TROUPE_METRIC_HISTOGRAM};
    status = troupe_metric_series(zoo->system, &options, NULL, &series);
    STRESS_CHECK(status == TROUPE_OK, "%s", troupe_status_name(status));
    troupe_metric_observe(
        zoo->system, series, test_random_below(rng, 16) / 4.0);
    options.name = "zoo_open";
    options.kind = TROUPE_METRIC_GAUGE;
    status = troupe_metric_series(zoo->system, &options, NULL, &series);
    STRESS_CHECK(status == TROUPE_OK, "%s", troupe_status_name(status));
    troupe_metric_add(zoo->system, series, 1);
    atomic_fetch_add(&zoo->counted, 1);
}

static troupe_verdict
be_child(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct zoo *zoo = STRESS_STATE(struct zoo, state);

    if (troupe_msg_is(msg, &fall)) {
        atomic_fetch_add(&zoo->falls, 1);
        return troupe_fail(self, 1);
    }
    if (troupe_msg_is(msg, &work)) {
        struct test_rng rng = {atomic_fetch_add(&zoo->seeds, 1)};

        count_one(zoo, &rng);
    }
    return TROUPE_CONTINUE;
}

static const troupe_actor_type child_type = STRESS_ACTOR(be_child);

static void
on_drop(troupe_drop_reason reason, const troupe_msg *msg, void *user)
{
    struct zoo *zoo = user;

    (void)reason;
    (void)msg;
    atomic_fetch_add(&zoo->dropped, 1);
}

static void
breed(troupe_self *self, struct zoo *zoo, struct test_rng *rng)
{
    troupe_mailbox_options mailbox = TROUPE_INIT(troupe_mailbox_options);
    const troupe_spawn_options options = {
        .size = TROUPE_OPTIONS(troupe_spawn_options),
        .arg = &zoo,
        .arg_bytes = sizeof zoo,
        .mailbox = test_random_below(rng, 2) == 0 ? &mailbox : NULL,
    };
    troupe_ref child = TROUPE_NONE;
    troupe_status status;

    mailbox.capacity = 3;
    mailbox.overflow = test_random_below(rng, 2) == 0
                           ? TROUPE_OVERFLOW_DROP_HEAD
                           : TROUPE_OVERFLOW_DROP_NEW;
    mailbox.on_drop = on_drop;
    mailbox.drop_user = zoo;
    status = troupe_spawn(self, &child_type, &options, &child);
    STRESS_CHECK(status == TROUPE_OK, "%s", troupe_status_name(status));
    atomic_fetch_add(&zoo->children, 1);
    for (uint32_t i = test_random_below(rng, 8); i > 0; i--) {
        troupe_tell(
            self, child, test_random_below(rng, 6) == 0 ? &fall : &work, NULL);
    }
    if (test_random_below(rng, 4) != 0) {
        (void)troupe_stop(self, child);
    }
}

static troupe_verdict
be_breeder(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct zoo *zoo = STRESS_STATE(struct zoo, state);
    struct test_rng rng = {atomic_fetch_add(&zoo->seeds, 1)};

    (void)msg;
    for (int i = 0; i < BROOD; i++) {
        breed(self, zoo, &rng);
    }
    return TROUPE_CONTINUE;
}

static const troupe_actor_type breeder_type = STRESS_ACTOR(be_breeder);

/* What only grows must never be less than it was. */
static void *
scrape(void *user)
{
    struct zoo *zoo = user;
    double children = 0, counted = 0;

    while (!atomic_load(&zoo->over)) {
        char *text = test_scrape(zoo->system, TROUPE_METRICS_PROMETHEUS);
        double born = test_sample_of(
            text, "troupe_class_started_total{class=\"be_child\"}");
        double observed = test_sample_of(text, "zoo_seconds_count");

        STRESS_CHECK(!(born < children), "%g after %g", born, children);
        STRESS_CHECK(!(observed < counted), "%g after %g", observed, counted);
        children = born;
        counted = observed;
        free(text);
        text = test_scrape(zoo->system, TROUPE_METRICS_JSON);
        STRESS_CHECK(strcmp(text + strlen(text) - 3, "]}\n") == 0, "cut");
        free(text);
    }
    return NULL;
}

static double
sum_of(const char *text, const char *name)
{
    size_t length = strlen(name);
    double sum = 0;

    for (const char *line = text; *line != '\0';
         line = strchr(line, '\n') + 1) {
        if (strncmp(line, name, length) == 0 &&
            (line[length] == '{' || line[length] == ' ')) {
            sum += strtod(line + strcspn(line, " ") + 1, NULL);
        }
    }
    return sum;
}

static void
check_sum(const char *text, const char *name, uint64_t value)
{
    double sum = sum_of(text, name);

    STRESS_CHECK(
        sum == (double)value, "%s is %.0f, not %" PRIu64, name, sum, value);
}

static void
check_sums(struct zoo *zoo)
{
    char *text = test_scrape(zoo->system, TROUPE_METRICS_PROMETHEUS);
    uint64_t counted = atomic_load(&zoo->counted);

    check_sum(text, "zoo_counted_total", counted);
    check_sum(text, "zoo_open", counted);
    check_sum(text, "zoo_seconds_count", counted);
    check_sum(text, "actor_mailbox_dropped_total", atomic_load(&zoo->dropped));
    check_sum(
        text, "actor_restarted_total", stress_counters(zoo->system).restarted);
    check_sum(text, "troupe_class_restarted_total",
        stress_counters(zoo->system).restarted);
    check_sum(text, "troupe_class_started_total",
        atomic_load(&zoo->children) + BREEDERS);
    check_sum(text, "troupe_class_stopped_total",
        stress_counters(zoo->system).stopped);
    free(text);
}

static uint64_t
run(struct test_rng *rng)
{
    troupe_system_options options = stress_options(stress_workers(rng));
    struct zoo *zoo = stress_zeroed(1, sizeof *zoo);
    pthread_t scrapers[SCRAPERS];
    struct test_rng own = {test_random(rng)};
    troupe_ref breeders[BREEDERS];
    uint64_t children;

    options.metrics = TROUPE_SWITCH_ON;
    atomic_store(&zoo->seeds, test_random(rng));
    zoo->max_series = test_random_below(rng, 2) == 0 ? 5 : 0;
    zoo->system = stress_open(&options);
    for (uint32_t i = 0; i < BREEDERS; i++) {
        breeders[i] = stress_spawn(zoo->system, &breeder_type, zoo);
    }
    for (int i = 0; i < SCRAPERS; i++) {
        stress_thread(&scrapers[i], scrape, zoo);
    }
    for (uint32_t i = 0; i < BROODS; i++) {
        troupe_post_tell(zoo->system, breeders[i % BREEDERS], &go, NULL);
        count_one(zoo, &own);
        stress_jitter(&own);
    }
    stress_await_idle(zoo->system);
    atomic_store(&zoo->over, true);
    for (int i = 0; i < SCRAPERS; i++) {
        stress_join(scrapers[i]);
    }
    check_sums(zoo);
    stress_close(zoo->system);
    children = atomic_load(&zoo->children);
    free(zoo);
    return children;
}

int
main(int argc, char **argv)
{
    struct test_rng rng;
    uint64_t children = 0;

    stress_begin(argc, argv);
    while (stress_more(&rng)) {
        children += run(&rng);
    }
    return stress_end(children, "children");
}
