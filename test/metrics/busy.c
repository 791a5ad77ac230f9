/* SPDX-License-Identifier: MIT */

/*
 * A system in which something of everything has happened, and its metrics on
 * the standard output. "json": in that form.
 */
#include "support/scrape.h"
#include "support/system.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEEP = 12000 };

static void
make_own(troupe_system *system)
{
    static const char *const labels[] = {"zone", "area", NULL};
    static const char *const values[] = {"a\"b\\c\nd", "gr\xc3\xbc\xff", NULL};
    troupe_metric_options options = TROUPE_INIT(troupe_metric_options);
    static const char *const names[] = {"own_total", "own_open", "own_seconds"};

    for (int i = 0; i < 3; i++) {
        troupe_series series;

        options.name = names[i];
        options.help = "of \"mine\" \\ with\nlines";
        options.kind = (troupe_metric_kind)i;
        options.labels = labels;
        test_require(troupe_metric_series(system, &options, values, &series) ==
                     TROUPE_OK);
        troupe_metric_add(system, series, 1e-7);
        troupe_metric_observe(system, series, 1.0 / 3);
    }
}

static troupe_verdict
fail_or_leave(troupe_self *self, const troupe_msg *msg, void *user)
{
    (void)msg;
    return user != NULL ? troupe_fail(self, 1) : TROUPE_UNHANDLED;
}

int
main(int argc, char **argv)
{
    troupe_system_options options = test_options();
    troupe_mailbox_options mailbox = TROUPE_INIT(troupe_mailbox_options);
    troupe_spawn_options bounded = TROUPE_INIT(troupe_spawn_options);
    bool json = argc > 1 && strcmp(argv[1], "json") == 0;
    troupe_system *system;
    troupe_ref doer, ref;
    char *text;

    options.flags |= TROUPE_SYSTEM_DRIVEN;
    options.metrics = TROUPE_SWITCH_ON;
    system = test_open(&options);
    make_own(system);
    doer = test_spawn_doer(system, "doer");
    test_do(system, doer, fail_or_leave, NULL);
    test_do(system, doer, fail_or_leave, &doer);
    mailbox.capacity = 2;
    mailbox.overflow = TROUPE_OVERFLOW_DROP_HEAD;
    bounded.mailbox = &mailbox;
    test_require(
        troupe_system_spawn(system, &test_plain, &bounded, &ref) == TROUPE_OK);
    test_post_numbers(system, ref, 5);
    test_run(system);
    test_require(
        troupe_system_spawn(system, &test_plain, NULL, &ref) == TROUPE_OK);
    test_post_numbers(system, ref, DEEP);
    text = test_scrape(
        system, json ? TROUPE_METRICS_JSON : TROUPE_METRICS_PROMETHEUS);
    (void)fputs(text, stdout);
    free(text);
    test_close(system);
    return 0;
}
