/* SPDX-License-Identifier: MIT */
#ifndef TEST_SUPPORT_SCRAPE_H
#define TEST_SUPPORT_SCRAPE_H

#include <troupe/metrics.h>

/* The text of all metrics; to be freed. Ends the process if there is none. */
char *test_scrape(troupe_system *system, troupe_metrics_format format);

/*
 * In a text in Prometheus form, the number of a series as it is written there,
 * "name{a=\"b\"}"; NaN: there is no such line. Ends the process if there are
 * two.
 */
double test_sample_of(const char *text, const char *series);

/* Both, of a series that takes one look. */
double test_sample(troupe_system *system, const char *series);

#endif /* TEST_SUPPORT_SCRAPE_H */
