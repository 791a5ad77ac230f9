/* SPDX-License-Identifier: MIT */
#include "system/exposition.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static char text[100000];
static size_t used;
static uint32_t pieces;
static uint32_t most_pieces; /* then it has seen enough */
static struct trp_exposition out;

static bool
collect(const char *piece, size_t bytes, void *user)
{
    cr_assert_eq(user, text);
    cr_assert_lt(used + bytes, sizeof text);
    memcpy(text + used, piece, bytes);
    used += bytes;
    return ++pieces < most_pieces;
}

static void
begin(troupe_metrics_format format)
{
    used = pieces = 0;
    most_pieces = UINT32_MAX;
    trp_exposition_begin(&out, format, collect, text);
}

static void
expect(const char *all)
{
    trp_exposition_end(&out);
    text[used] = '\0';
    cr_assert_str_eq(text, all);
}

Test(system_exposition, nothing_is_an_empty_text_or_an_empty_list)
{
    begin(TROUPE_METRICS_PROMETHEUS);
    expect("");
    cr_assert_eq(pieces, 0);
    begin(TROUPE_METRICS_JSON);
    expect("{\"metrics\":[]}\n");
}

Test(system_exposition, a_family_has_its_help_and_type_once)
{
    const struct trp_label one[] = {{"shop", "north"}};
    const struct trp_label two[] = {{"a", "1"}, {"shop", "south"}};

    begin(TROUPE_METRICS_PROMETHEUS);
    trp_exposition_family(&out, "orders_total", "taken", TROUPE_METRIC_COUNTER);
    trp_exposition_value(&out, one, 1, 3);
    trp_exposition_value(&out, two, 2, 0.5);
    trp_exposition_family(&out, "open", "", TROUPE_METRIC_GAUGE);
    trp_exposition_value(&out, NULL, 0, -2);
    expect("# HELP orders_total taken\n"
           "# TYPE orders_total counter\n"
           "orders_total{shop=\"north\"} 3\n"
           "orders_total{a=\"1\",shop=\"south\"} 0.5\n"
           "# HELP open\n"
           "# TYPE open gauge\n"
           "open -2\n");
}

static void
write_histogram(const char *label)
{
    static const double bounds[] = {.005, 1, 2.5};
    static const uint64_t counts[] = {1, 0, 3, 2};
    const struct trp_label labels[] = {{label, "v"}};

    trp_exposition_family(&out, "h", "help", TROUPE_METRIC_HISTOGRAM);
    trp_exposition_histogram(
        &out, labels, 1, &(struct trp_histogram){bounds, 3, counts, 17.25});
}

Test(system_exposition, a_histogram_is_cumulative_and_ends_with_infinity)
{
    begin(TROUPE_METRICS_PROMETHEUS);
    write_histogram("zone");
    expect("# HELP h help\n"
           "# TYPE h histogram\n"
           "h_bucket{le=\"0.005\",zone=\"v\"} 1\n"
           "h_bucket{le=\"1\",zone=\"v\"} 1\n"
           "h_bucket{le=\"2.5\",zone=\"v\"} 4\n"
           "h_bucket{le=\"+Inf\",zone=\"v\"} 6\n"
           "h_sum{zone=\"v\"} 17.25\n"
           "h_count{zone=\"v\"} 6\n");
}

Test(system_exposition, the_bound_stands_where_its_name_belongs)
{
    begin(TROUPE_METRICS_PROMETHEUS);
    write_histogram("area");
    trp_exposition_end(&out);
    text[used] = '\0';
    cr_assert_not_null(strstr(text, "h_bucket{area=\"v\",le=\"1\"} 1\n"));
}

Test(system_exposition, quotes_backslashes_and_line_ends_are_escaped)
{
    const struct trp_label odd[] = {{"l", "a\"b\\c\nd\te"}};

    begin(TROUPE_METRICS_PROMETHEUS);
    trp_exposition_family(&out, "m", "\"a\"\\b\nc", TROUPE_METRIC_GAUGE);
    trp_exposition_value(&out, odd, 1, 1);
    expect("# HELP m \"a\"\\\\b\\nc\n"
           "# TYPE m gauge\n"
           "m{l=\"a\\\"b\\\\c\\nd\te\"} 1\n");
    begin(TROUPE_METRICS_JSON);
    trp_exposition_family(&out, "m", "\"", TROUPE_METRIC_GAUGE);
    trp_exposition_value(&out, odd, 1, 1);
    expect(
        "{\"metrics\":[\n"
        " {\"name\":\"m\",\"kind\":\"gauge\",\"help\":\"\\\"\",\"series\":[\n"
        "  {\"labels\":{\"l\":\"a\\\"b\\\\c\\u000ad\\u0009e\"},\"value\":1}"
        "]}]}\n");
}

static void
expect_label(const char *value, const char *written)
{
    const struct trp_label label[] = {{"l", value}};
    char line[200];

    begin(TROUPE_METRICS_PROMETHEUS);
    out.name = "m";
    trp_exposition_value(&out, label, 1, 1);
    (void)snprintf(line, sizeof line, "m{l=\"%s\"} 1\n", written);
    expect(line);
}

#define ODD "\xef\xbf\xbd"

Test(system_exposition, what_is_not_utf_8_is_replaced)
{
    expect_label("gr\xc3\xbc\xc3\x9f"
                 "e",
        "gr\xc3\xbc\xc3\x9f"
        "e");
    expect_label(
        "\xe2\x82\xac\xf0\x9f\x98\x80", "\xe2\x82\xac\xf0\x9f\x98\x80");
    expect_label("a\xff"
                 "b",
        "a" ODD "b");
    expect_label("\xc3", ODD);                         /* cut */
    expect_label("\xe2\x82", ODD ODD);                 /* cut */
    expect_label("\xe2\x82x", ODD ODD "x");            /* cut */
    expect_label("\xc0\xaf", ODD ODD);                 /* longer than need be */
    expect_label("\xe0\x80\xaf", ODD ODD ODD);         /* the same */
    expect_label("\xed\xa0\x80", ODD ODD ODD);         /* a surrogate */
    expect_label("\xf4\x90\x80\x80", ODD ODD ODD ODD); /* beyond the last */
    expect_label("\xf0\x80\x80\x80", ODD ODD ODD ODD);
}

Test(system_exposition, json_has_buckets_and_no_words_for_infinity)
{
    begin(TROUPE_METRICS_JSON);
    write_histogram("l");
    trp_exposition_family(&out, "g", "", TROUPE_METRIC_GAUGE);
    trp_exposition_value(&out, NULL, 0, INFINITY);
    trp_exposition_value(&out, NULL, 0, 2);
    expect("{\"metrics\":[\n"
           " {\"name\":\"h\",\"kind\":\"histogram\",\"help\":\"help\","
           "\"series\":[\n"
           "  {\"labels\":{\"l\":\"v\"},\"buckets\":["
           "{\"le\":0.005,\"count\":1},{\"le\":1,\"count\":1},"
           "{\"le\":2.5,\"count\":4}],\"sum\":17.25,\"count\":6}]},\n"
           " {\"name\":\"g\",\"kind\":\"gauge\",\"help\":\"\",\"series\":[\n"
           "  {\"labels\":{},\"value\":null},\n"
           "  {\"labels\":{},\"value\":2}]}]}\n");
}

Test(system_exposition, a_long_text_comes_in_pieces_and_ends_when_told)
{
    char value[3000];
    const struct trp_label label[] = {{"l", value}};

    memset(value, 'x', sizeof value - 1);
    value[sizeof value - 1] = '\0';
    begin(TROUPE_METRICS_PROMETHEUS);
    out.name = "m";
    for (int i = 0; i < 20; i++) {
        trp_exposition_value(&out, label, 1, i);
    }
    trp_exposition_end(&out);
    cr_assert_eq(pieces, used / sizeof out.text + 1);
    cr_assert_gt(used, 20 * sizeof value);

    begin(TROUPE_METRICS_PROMETHEUS);
    most_pieces = 2;
    for (int i = 0; i < 20; i++) {
        trp_exposition_value(&out, label, 1, i);
    }
    trp_exposition_end(&out);
    cr_assert_eq(pieces, 2);
    cr_assert(out.is_over);
}
