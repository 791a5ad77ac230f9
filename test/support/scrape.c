/* SPDX-License-Identifier: MIT */
#include "support/scrape.h"

#include "support/require.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct text {
    char *bytes;
    size_t used;
};

static bool
append(const char *piece, size_t bytes, void *user) TROUPE_NOEXCEPT
{
    struct text *text = user;
    char *larger = realloc(text->bytes, text->used + bytes + 1);

    test_require(larger != NULL);
    text->bytes = larger;
    memcpy(text->bytes + text->used, piece, bytes);
    text->used += bytes;
    text->bytes[text->used] = '\0';
    return true;
}

char *
test_scrape(troupe_system *system, troupe_metrics_format format)
{
    struct text text = {NULL, 0};

    test_require(append("", 0, &text));
    test_require(
        troupe_metrics_write(system, format, append, &text) == TROUPE_OK);
    return text.bytes;
}

double
test_sample_of(const char *text, const char *series)
{
    size_t length = strlen(series);
    double value = NAN;

    for (const char *line = text; *line != '\0';) {
        if (strncmp(line, series, length) == 0 && line[length] == ' ') {
            test_require(isnan(value));
            value = strtod(line + length + 1, NULL);
        }
        line = strchr(line, '\n');
        test_require(line != NULL); /* each line has its end */
        line++;
    }
    return value;
}

double
test_sample(troupe_system *system, const char *series)
{
    char *text = test_scrape(system, TROUPE_METRICS_PROMETHEUS);
    double value = test_sample_of(text, series);

    free(text);
    return value;
}
