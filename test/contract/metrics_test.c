/* SPDX-License-Identifier: MIT */
#include "support/scrape.h"
#include "support/system.h"

#include <troupe/testkit.h>

#include <criterion/criterion.h>

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The registry: families, series, what is counted where, and by whom. */

static troupe_system *the_system;
static char told[4096]; /* lines of the log */

static void
keep_line(const troupe_log_line *line, void *user)
{
    (void)user;
    (void)strncat(told, line->text, sizeof told - strlen(told) - 1);
    (void)strncat(told, "\n", sizeof told - strlen(told) - 1);
}

static troupe_system *
open_metered(troupe_switch metrics)
{
    troupe_system_options options = test_options();

    options.flags |= TROUPE_SYSTEM_DRIVEN;
    options.metrics = metrics;
    options.log.write = keep_line;
    options.log.max_level = TROUPE_LOG_WARN;
    return test_open(&options);
}

static void
open_the_system(void)
{
    the_system = open_metered(TROUPE_SWITCH_ON);
}

static void
close_the_system(void)
{
    test_close(the_system);
}

TestSuite(metrics, .init = open_the_system, .fini = close_the_system);

/* --- short forms ---------------------------------------------------------- */

static troupe_metric_options
metric(const char *name, troupe_metric_kind kind)
{
    troupe_metric_options options = TROUPE_INIT(troupe_metric_options);

    options.name = name;
    options.help = "of a test";
    options.kind = kind;
    return options;
}

static troupe_series
series_of(const troupe_metric_options *options, const char *const *values)
{
    troupe_series series = {0};

    cr_assert_eq(
        troupe_metric_series(the_system, options, values, &series), TROUPE_OK);
    cr_assert_neq(series.id, 0);
    return series;
}

static troupe_series
plain(const char *name, troupe_metric_kind kind)
{
    troupe_metric_options options = metric(name, kind);

    return series_of(&options, NULL);
}

static const char *const shop_label[] = {"shop", NULL};

static troupe_series
shop(const char *name, const char *value)
{
    troupe_metric_options options = metric(name, TROUPE_METRIC_COUNTER);
    const char *const values[] = {value, NULL};

    options.labels = shop_label;
    return series_of(&options, values);
}

#define EXPECT(series, value)                                                  \
    cr_assert_eq(test_sample(the_system, series), (value), "%s", (series))
#define EXPECT_NONE(series)                                                    \
    cr_assert(isnan(test_sample(the_system, series)), "%s", (series))

/* --- series --------------------------------------------------------------- */

Test(metrics, the_same_values_are_the_same_series)
{
    troupe_series north = shop("orders_total", "north");
    troupe_series south = shop("orders_total", "south");

    cr_assert_eq(shop("orders_total", "north").id, north.id);
    cr_assert_neq(north.id, south.id);
    cr_assert_neq(shop("other_total", "north").id, north.id);
    troupe_metric_add(the_system, north, 2);
    troupe_metric_add(the_system, south, 3);
    EXPECT("orders_total{shop=\"north\"}", 2);
    EXPECT("orders_total{shop=\"south\"}", 3);
    EXPECT("other_total{shop=\"north\"}", 0);
}

Test(metrics, labels_are_written_in_the_order_of_their_names)
{
    static const char *const labels[] = {"zone", "area", "m", NULL};
    static const char *const values[] = {"1", "2", "3", NULL};
    troupe_metric_options options = metric("x_total", TROUPE_METRIC_COUNTER);

    options.labels = labels;
    troupe_metric_add(the_system, series_of(&options, values), 1);
    EXPECT("x_total{area=\"2\",m=\"3\",zone=\"1\"}", 1);
}

Test(metrics, values_that_run_together_are_different_series)
{
    static const char *const labels[] = {"a", "b", NULL};
    static const char *const one[] = {"ab", "c", NULL};
    static const char *const two[] = {"a", "bc", NULL};
    troupe_metric_options options = metric("x_total", TROUPE_METRIC_COUNTER);

    options.labels = labels;
    cr_assert_neq(series_of(&options, one).id, series_of(&options, two).id);
}

Test(metrics, name_help_and_values_are_copied)
{
    char name[] = "copied_total", help[] = "helps", value[] = "north";
    const char *const values[] = {value, NULL};
    troupe_metric_options options = metric(name, TROUPE_METRIC_COUNTER);
    char *text;

    options.help = help;
    options.labels = shop_label;
    (void)series_of(&options, values);
    memset(name, 'x', sizeof name - 1);
    memset(help, 'x', sizeof help - 1);
    memset(value, 'x', sizeof value - 1);
    text = test_scrape(the_system, TROUPE_METRICS_PROMETHEUS);
    cr_assert_not_null(strstr(text, "# HELP copied_total helps\n"
                                    "# TYPE copied_total counter\n"
                                    "copied_total{shop=\"north\"} 0\n"));
    free(text);
}

Test(metrics, many_series_count_for_themselves)
{
    enum { MANY = 3000 };
    static troupe_series series[MANY];
    char name[64];
    char *text;

    for (int i = 0; i < MANY; i++) {
        (void)snprintf(name, sizeof name, "%d", i);
        series[i] = shop("many_total", name);
        troupe_metric_add(the_system, series[i], i);
    }
    text = test_scrape(the_system, TROUPE_METRICS_PROMETHEUS);
    for (int i = 0; i < MANY; i += 97) {
        (void)snprintf(name, sizeof name, "many_total{shop=\"%d\"}", i);
        cr_assert_eq(test_sample_of(text, name), i);
    }
    free(text);
}

/* --- refused -------------------------------------------------------------- */

static void
expect_refused(const troupe_metric_options *options, const char *const *values,
    troupe_status status, const char *option)
{
    troupe_series series = {77};

    cr_assert_eq(troupe_metric_series(the_system, options, values, &series),
        status, "%s", option);
    cr_assert_eq(series.id, 77, "nothing is written");
    cr_assert_str_eq(troupe_last_error().call, "troupe_metric_series");
    cr_assert_str_eq(troupe_last_error().option, option);
}

static void
expect_bad_name(const char *name, troupe_metric_kind kind, troupe_status status)
{
    troupe_metric_options options = metric(name, kind);

    expect_refused(&options, NULL, status, "name");
}

Test(metrics, names_are_checked)
{
    static const char *const bad[] = {
        NULL, "", "1a", "a-b", "a b", "gr\xc3\xbcn", "a.b", "a\n"};

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        expect_bad_name(bad[i], TROUPE_METRIC_COUNTER, TROUPE_E_INVALID);
    }
    (void)plain("a", TROUPE_METRIC_COUNTER);
    (void)plain(":_9z", TROUPE_METRIC_COUNTER);
}

Test(metrics, a_name_has_one_kind)
{
    (void)plain("a", TROUPE_METRIC_COUNTER);
    expect_bad_name("a", TROUPE_METRIC_GAUGE, TROUPE_E_EXISTS);
    expect_bad_name("a", TROUPE_METRIC_HISTOGRAM, TROUPE_E_EXISTS);
    (void)plain("a", TROUPE_METRIC_COUNTER);
}

Test(metrics, samples_of_a_histogram_are_taken)
{
    (void)plain("h", TROUPE_METRIC_HISTOGRAM);
    expect_bad_name("h_bucket", TROUPE_METRIC_COUNTER, TROUPE_E_EXISTS);
    expect_bad_name("h_sum", TROUPE_METRIC_GAUGE, TROUPE_E_EXISTS);
    expect_bad_name("h_count", TROUPE_METRIC_COUNTER, TROUPE_E_EXISTS);
    (void)plain("h_total", TROUPE_METRIC_COUNTER);
    (void)plain("g_count", TROUPE_METRIC_COUNTER);
    expect_bad_name("g", TROUPE_METRIC_HISTOGRAM, TROUPE_E_EXISTS);
}

Test(metrics, the_library_s_own_are_taken)
{
    expect_bad_name(
        "actor_created_total", TROUPE_METRIC_COUNTER, TROUPE_E_EXISTS);
    expect_bad_name(
        "actor_dead_letters_total", TROUPE_METRIC_COUNTER, TROUPE_E_EXISTS);
    expect_bad_name("troupe_anything", TROUPE_METRIC_GAUGE, TROUPE_E_EXISTS);
    (void)plain("actor_mine_total", TROUPE_METRIC_COUNTER);
}

static void
expect_bad_labels(const char *const *labels, const char *const *values,
    troupe_metric_kind kind, const char *option)
{
    troupe_metric_options options = metric("l", kind);

    options.labels = labels;
    expect_refused(&options, values, TROUPE_E_INVALID, option);
}

Test(metrics, labels_are_checked)
{
    static const char *const values[] = {"v", NULL};
    static const char *const two[] = {"v", "w", NULL};
    static const char *const bad[][2] = {
        {"", NULL}, {"a:b", NULL}, {"__name__", NULL}, {"1", NULL}};
    static const char *const twice[] = {"a", "a", NULL};
    static const char *const le[] = {"le", NULL};
    const char *many[34] = {NULL}, *many_values[34] = {NULL};
    char names[33][4];

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        expect_bad_labels(bad[i], values, TROUPE_METRIC_COUNTER, "labels");
    }
    expect_bad_labels(twice, two, TROUPE_METRIC_COUNTER, "labels");
    expect_bad_labels(le, values, TROUPE_METRIC_HISTOGRAM, "labels");
    for (int i = 0; i < 33; i++) {
        (void)snprintf(names[i], sizeof names[i], "n%d", i);
        many[i] = many_values[i] = names[i];
    }
    expect_bad_labels(many, many_values, TROUPE_METRIC_COUNTER, "labels");
    many[32] = many_values[32] = NULL;
    {
        troupe_metric_options options = metric("ok", TROUPE_METRIC_COUNTER);

        options.labels = many;
        (void)series_of(&options, many_values);
    }
}

Test(metrics, there_is_one_value_per_label)
{
    static const char *const none[] = {NULL};
    static const char *const one[] = {"v", NULL};
    static const char *const two[] = {"v", "w", NULL};

    expect_bad_labels(shop_label, NULL, TROUPE_METRIC_COUNTER, "values");
    expect_bad_labels(shop_label, none, TROUPE_METRIC_COUNTER, "values");
    expect_bad_labels(shop_label, two, TROUPE_METRIC_COUNTER, "values");
    expect_bad_labels(NULL, one, TROUPE_METRIC_COUNTER, "values");
}

Test(metrics, a_family_keeps_its_labels)
{
    static const char *const values[] = {"v", NULL};
    static const char *const other[] = {"store", NULL};
    troupe_metric_options options = metric("l_total", TROUPE_METRIC_COUNTER);

    options.labels = shop_label;
    (void)series_of(&options, values);
    options.labels = other;
    expect_refused(&options, values, TROUPE_E_INVALID, "labels");
    options.labels = NULL;
    expect_refused(&options, NULL, TROUPE_E_INVALID, "labels");
}

Test(metrics, bounds_are_checked)
{
    static const double same[] = {1, 1}, falling[] = {2, 1};
    static const double endless[] = {1, INFINITY}, none[] = {NAN};
    static const double *const bad[] = {same, falling, endless};
    static double many[201];
    troupe_metric_options options = metric("b", TROUPE_METRIC_HISTOGRAM);

    options.bound_count = 2;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        options.bounds = bad[i];
        expect_refused(&options, NULL, TROUPE_E_INVALID, "bounds");
    }
    options.bounds = none;
    options.bound_count = 1;
    expect_refused(&options, NULL, TROUPE_E_INVALID, "bounds");
    options.bounds = NULL;
    expect_refused(&options, NULL, TROUPE_E_INVALID, "bound_count");
    for (int i = 0; i < 201; i++) {
        many[i] = i;
    }
    options.bounds = many;
    options.bound_count = 201;
    expect_refused(&options, NULL, TROUPE_E_INVALID, "bound_count");
    options.bound_count = 200;
    (void)series_of(&options, NULL);
    options = metric("c_total", TROUPE_METRIC_COUNTER);
    options.bounds = many;
    options.bound_count = 2;
    expect_refused(&options, NULL, TROUPE_E_INVALID, "bound_count");
}

Test(metrics, other_bad_input_is_refused)
{
    troupe_metric_options options = metric("x", TROUPE_METRIC_COUNTER);
    troupe_series series = {77};

    cr_assert_eq(
        troupe_metric_series(NULL, &options, NULL, &series), TROUPE_E_INVALID);
    cr_assert_eq(troupe_metric_series(the_system, NULL, NULL, &series),
        TROUPE_E_INVALID);
    cr_assert_eq(troupe_metric_series(the_system, &options, NULL, NULL),
        TROUPE_E_INVALID);
    options.kind = (troupe_metric_kind)3;
    expect_refused(&options, NULL, TROUPE_E_INVALID, "kind");
    cr_assert_eq(series.id, 77);
}

/* --- numbers -------------------------------------------------------------- */

Test(metrics, a_counter_grows_and_nothing_else)
{
    troupe_series counter = plain("c_total", TROUPE_METRIC_COUNTER);

    troupe_metric_add(the_system, counter, 1.5);
    troupe_metric_add(the_system, counter, 0);
    troupe_metric_add(the_system, counter, -1);
    troupe_metric_add(the_system, counter, NAN);
    troupe_metric_add(the_system, counter, INFINITY);
    troupe_metric_set(the_system, counter, 9);
    troupe_metric_observe(the_system, counter, 9);
    EXPECT("c_total", 1.5);
}

Test(metrics, a_gauge_is_what_was_set_and_added)
{
    troupe_series gauge = plain("g", TROUPE_METRIC_GAUGE);

    EXPECT("g", 0);
    troupe_metric_set(the_system, gauge, -2.5);
    EXPECT("g", -2.5);
    troupe_metric_add(the_system, gauge, 4);
    troupe_metric_add(the_system, gauge, -1);
    EXPECT("g", .5);
    troupe_metric_set(the_system, gauge, NAN);
    troupe_metric_set(the_system, gauge, -INFINITY);
    troupe_metric_add(the_system, gauge, INFINITY);
    troupe_metric_observe(the_system, gauge, 9);
    EXPECT("g", .5);
}

Test(metrics, bounds_are_inclusive)
{
    static const double bounds[] = {-1, 0, 2.5};
    troupe_metric_options options = metric("h", TROUPE_METRIC_HISTOGRAM);
    troupe_series histogram;

    options.bounds = bounds;
    options.bound_count = 3;
    histogram = series_of(&options, NULL);
    for (int i = -2; i <= 5; i++) { /* -1 -.5 0 .5 1 1.5 2 2.5 */
        troupe_metric_observe(the_system, histogram, i / 2.0);
    }
    troupe_metric_observe(the_system, histogram, 2.5000001);
    troupe_metric_observe(the_system, histogram, NAN);
    troupe_metric_observe(the_system, histogram, INFINITY);
    troupe_metric_observe(the_system, histogram, -INFINITY);
    troupe_metric_add(the_system, histogram, 1);
    troupe_metric_set(the_system, histogram, 1);
    EXPECT("h_bucket{le=\"-1\"}", 1);
    EXPECT("h_bucket{le=\"0\"}", 3);
    EXPECT("h_bucket{le=\"2.5\"}", 8);
    EXPECT("h_bucket{le=\"+Inf\"}", 9);
    EXPECT("h_count", 9);
    EXPECT("h_sum", 8.5000001);
}

Test(metrics, the_default_bounds_are_those_of_seconds)
{
    static const char *const bounds[] = {"0.005", "0.01", "0.025", "0.05",
        "0.1", "0.25", "0.5", "1", "2.5", "5", "10", "+Inf"};
    troupe_series histogram = plain("h", TROUPE_METRIC_HISTOGRAM);

    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) {
        char name[64];

        troupe_metric_observe(
            the_system, histogram, i < 11 ? strtod(bounds[i], NULL) : 11);
        (void)snprintf(name, sizeof name, "h_bucket{le=\"%s\"}", bounds[i]);
        EXPECT(name, (double)i + 1);
    }
}

Test(metrics, help_kind_and_bounds_are_those_of_the_first_use)
{
    static const double bounds[] = {1, 2}, other[] = {5};
    troupe_metric_options options = metric("h", TROUPE_METRIC_HISTOGRAM);
    troupe_series first;

    options.bounds = bounds;
    options.bound_count = 2;
    first = series_of(&options, NULL);
    options.bounds = other;
    options.bound_count = 1;
    options.help = "other";
    cr_assert_eq(series_of(&options, NULL).id, first.id);
    troupe_metric_observe(the_system, first, 2);
    EXPECT("h_bucket{le=\"2\"}", 1);
    EXPECT_NONE("h_bucket{le=\"5\"}");
}

Test(metrics, a_series_of_nobody_swallows_everything)
{
    const troupe_series strange[] = {{0}, {1}, {UINT64_MAX},
        {(plain("c_total", TROUPE_METRIC_COUNTER).id | UINT32_MAX)},
        {plain("c_total", TROUPE_METRIC_COUNTER).id + 500}};

    for (size_t i = 0; i < sizeof strange / sizeof *strange; i++) {
        troupe_metric_add(the_system, strange[i], 1);
        troupe_metric_set(the_system, strange[i], 1);
        troupe_metric_observe(the_system, strange[i], 1);
        troupe_metric_add(NULL, strange[i], 1);
        troupe_metric_set(NULL, strange[i], 1);
        troupe_metric_observe(NULL, strange[i], 1);
    }
    EXPECT("c_total", 0);
}

Test(metrics, two_systems_do_not_mix)
{
    troupe_series here = plain("c_total", TROUPE_METRIC_COUNTER);
    troupe_series gauge = plain("g", TROUPE_METRIC_GAUGE);
    troupe_metric_options options = metric("c_total", TROUPE_METRIC_COUNTER);
    troupe_system *other = open_metered(TROUPE_SWITCH_ON);
    troupe_series there;

    cr_assert_eq(
        troupe_metric_series(other, &options, NULL, &there), TROUPE_OK);
    troupe_metric_add(other, here, 1);
    troupe_metric_set(other, gauge, 1);
    troupe_metric_add(the_system, there, 1);
    troupe_metric_add(other, there, 5);
    EXPECT("c_total", 0);
    EXPECT("g", 0);
    cr_assert_eq(test_sample(other, "c_total"), 5);
    cr_assert(isnan(test_sample(other, "g")));
    cr_assert_eq(troupe_system_destroy(other), TROUPE_OK);
}

/* --- too many ------------------------------------------------------------- */

Test(metrics, what_is_too_much_is_one_series_and_one_line)
{
    troupe_metric_options options = metric("o_total", TROUPE_METRIC_COUNTER);
    static const char *const labels[] = {"a", "b", NULL};
    char value[16];
    troupe_series last = {0};

    options.labels = labels;
    options.max_series = 3;
    told[0] = '\0';
    for (int i = 0; i < 10; i++) {
        const char *const values[] = {value, "x", NULL};

        (void)snprintf(value, sizeof value, "%d", i);
        last = series_of(&options, values);
        troupe_metric_add(the_system, last, 1);
    }
    EXPECT("o_total{a=\"2\",b=\"x\"}", 1);
    EXPECT_NONE("o_total{a=\"3\",b=\"x\"}");
    EXPECT("o_total{a=\"__overflow__\",b=\"__overflow__\"}", 7);
    cr_assert_str_eq(told, "metric o_total has 3 series: what is new is "
                           "counted as \"__overflow__\"\n");
    {
        static const char *const first[] = {"0", "x", NULL};

        troupe_metric_add(the_system, series_of(&options, first), 1);
        EXPECT("o_total{a=\"0\",b=\"x\"}", 2);
    }
}

Test(metrics, ten_thousand_series_are_not_too_many)
{
    char value[16];

    told[0] = '\0';
    for (int i = 0; i < 10000; i++) {
        (void)snprintf(value, sizeof value, "%d", i);
        (void)shop("t_total", value);
    }
    cr_assert_str_eq(told, "");
    EXPECT_NONE("t_total{shop=\"__overflow__\"}");
    troupe_metric_add(the_system, shop("t_total", "one more"), 1);
    cr_assert_neq(told[0], '\0');
    EXPECT("t_total{shop=\"__overflow__\"}", 1);
}

/* --- on and off ----------------------------------------------------------- */

Test(metrics, off_is_the_default_and_has_no_text)
{
    troupe_system *system = open_metered(TROUPE_SWITCH_DEFAULT);
    char *text = test_scrape(system, TROUPE_METRICS_PROMETHEUS);

    cr_assert_str_eq(text, "");
    free(text);
    text = test_scrape(system, TROUPE_METRICS_JSON);
    cr_assert_str_eq(text, "{\"metrics\":[]}\n");
    free(text);
    cr_assert_eq(troupe_system_destroy(system), TROUPE_OK);
}

Test(metrics, while_off_counters_stand_still_and_gauges_follow)
{
    troupe_series counter = plain("c_total", TROUPE_METRIC_COUNTER);
    troupe_series gauge = plain("g", TROUPE_METRIC_GAUGE);
    troupe_series histogram = plain("h", TROUPE_METRIC_HISTOGRAM);

    troupe_metric_add(the_system, counter, 1);
    troupe_metrics_enable(the_system, false);
    troupe_metrics_enable(the_system, false);
    troupe_metric_add(the_system, counter, 10);
    troupe_metric_add(the_system, gauge, 1);
    troupe_metric_observe(the_system, histogram, 1);
    (void)plain("new_total", TROUPE_METRIC_COUNTER);
    EXPECT_NONE("c_total");
    troupe_metrics_enable(the_system, true);
    troupe_metric_add(the_system, counter, 1);
    troupe_metric_add(the_system, gauge, -1);
    EXPECT("c_total", 2);
    EXPECT("g", 0);
    EXPECT("h_count", 0);
    EXPECT("new_total", 0);
    troupe_metrics_enable(NULL, true);
}

/* --- many threads --------------------------------------------------------- */

enum { WORKERS = 8, THREADS = 3, EACH = 20000, ACTORS = 24 };

static troupe_series shared_counter, shared_gauge, shared_histogram;

static void
use_all(void)
{
    troupe_metric_add(the_system, shared_counter, 1);
    troupe_metric_add(the_system, shared_gauge, 1);
    troupe_metric_observe(the_system, shared_histogram, 1);
}

static troupe_verdict
use_all_inside(troupe_self *self, const troupe_msg *msg, void *user)
{
    (void)self;
    (void)msg;
    (void)user;
    for (int i = 0; i < 100; i++) {
        use_all();
    }
    return TROUPE_CONTINUE;
}

static void *
use_all_outside(void *user)
{
    (void)user;
    for (int i = 0; i < EACH; i++) {
        use_all();
    }
    return NULL;
}

Test(metrics, nothing_is_lost_between_threads)
{
    troupe_system_options options = test_options();
    pthread_t threads[THREADS];
    const double all = (double)THREADS * EACH + (double)ACTORS * 50 * 100;

    close_the_system();
    options.workers = WORKERS;
    options.metrics = TROUPE_SWITCH_ON;
    the_system = test_open(&options);
    shared_counter = plain("c_total", TROUPE_METRIC_COUNTER);
    shared_gauge = plain("g", TROUPE_METRIC_GAUGE);
    shared_histogram = plain("h", TROUPE_METRIC_HISTOGRAM);
    for (int i = 0; i < THREADS; i++) {
        cr_assert_eq(
            pthread_create(&threads[i], NULL, use_all_outside, NULL), 0);
    }
    for (int i = 0; i < ACTORS; i++) {
        troupe_ref doer = test_spawn_doer(the_system, NULL);

        for (int j = 0; j < 50; j++) {
            test_do_later(the_system, doer, use_all_inside, NULL);
        }
    }
    for (int i = 0; i < THREADS; i++) {
        cr_assert_eq(pthread_join(threads[i], NULL), 0);
    }
    cr_assert_eq(
        troupe_system_await_idle(the_system, TROUPE_FOREVER), TROUPE_OK);
    EXPECT("c_total", all);
    EXPECT("g", all);
    EXPECT("h_count", all);
    EXPECT("h_sum", all);
    EXPECT("h_bucket{le=\"1\"}", all);
    EXPECT("h_bucket{le=\"0.5\"}", 0);
}

/* --- write ---------------------------------------------------------------- */

static bool
stop_at_once(const char *text, size_t bytes, void *user)
{
    (void)text;
    (void)bytes;
    ++*(int *)user;
    return false;
}

Test(metrics, who_has_seen_enough_gets_no_more)
{
    int pieces = 0;

    cr_assert_eq(troupe_metrics_write(the_system, TROUPE_METRICS_PROMETHEUS,
                     stop_at_once, &pieces),
        TROUPE_OK);
    cr_assert_eq(pieces, 1);
}

Test(metrics, write_refuses_what_it_cannot_do)
{
    int pieces = 0;

    cr_assert_eq(
        troupe_metrics_write(NULL, TROUPE_METRICS_JSON, stop_at_once, &pieces),
        TROUPE_E_INVALID);
    cr_assert_eq(
        troupe_metrics_write(the_system, TROUPE_METRICS_JSON, NULL, NULL),
        TROUPE_E_INVALID);
    cr_assert_eq(troupe_metrics_write(the_system, (troupe_metrics_format)2,
                     stop_at_once, &pieces),
        TROUPE_E_INVALID);
    cr_assert_eq(pieces, 0);
}

/* Reads, makes and counts while it is called. */
static bool
call_back(const char *text, size_t bytes, void *user)
{
    char *inner;

    (void)text;
    (void)bytes;
    if (++*(int *)user < 3) {
        troupe_metric_add(
            the_system, plain("inner_total", TROUPE_METRIC_COUNTER), 1);
        inner = test_scrape(the_system, TROUPE_METRICS_PROMETHEUS);
        cr_assert_not_null(strstr(inner, "inner_total "));
        free(inner);
        troupe_metrics_enable(the_system, true);
    }
    return true;
}

Test(metrics, write_holds_no_lock_while_it_calls)
{
    int pieces = 0;

    cr_assert_eq(troupe_metrics_write(
                     the_system, TROUPE_METRICS_PROMETHEUS, call_back, &pieces),
        TROUPE_OK);
    cr_assert_gt(pieces, 1);
    EXPECT("inner_total", 2);
}

static int
use_in_child(void)
{
    troupe_metric_options options = metric("f_total", TROUPE_METRIC_COUNTER);
    troupe_series series = {0};
    int pieces = 0;

    troupe_metric_add(the_system, shared_counter, 1);
    troupe_metrics_enable(the_system, false);
    return troupe_metric_series(the_system, &options, NULL, &series) ==
                       TROUPE_E_FORKED &&
                   troupe_metrics_write(the_system, TROUPE_METRICS_JSON,
                       stop_at_once, &pieces) == TROUPE_E_FORKED &&
                   pieces == 0 && troupe_system_destroy(the_system) == TROUPE_OK
               ? 0
               : 1;
}

Test(metrics, a_forked_child_has_none)
{
    shared_counter = plain("c_total", TROUPE_METRIC_COUNTER);
    cr_assert_eq(test_in_child(use_in_child), 0);
    EXPECT("c_total", 0);
}
