/* SPDX-License-Identifier: MIT */
#include "base/number.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WHOLE_MOST 1e15
/* A decimal of so many digits survives the way to a double and back. */
#define DIGITS_LEAST 15
#define DIGITS_MOST 17

static size_t
write_word(char *text, const char *word)
{
    strcpy(text, word);
    return strlen(word);
}

static bool
is_of_number(char c)
{
    return (c >= '0' && c <= '9') || c == '-' || c == '+' || c == 'e';
}

size_t
trp_number_with_point(char *to, const char *from)
{
    size_t length = 0;
    bool was_number = true;

    for (; *from != '\0'; from++) {
        bool is_number = is_of_number(*from);

        if (is_number) { /* else it is the point, in one byte or more */
            to[length++] = *from;
        } else if (was_number) {
            to[length++] = '.';
        }
        was_number = is_number;
    }
    to[length] = '\0';
    return length;
}

size_t
trp_number_write(char *text, double value)
{
    char local[TRP_NUMBER_BYTES];

    if (isnan(value)) {
        return write_word(text, "NaN");
    }
    if (isinf(value)) {
        return write_word(text, value > 0 ? "+Inf" : "-Inf");
    }
    if (value > -WHOLE_MOST && value < WHOLE_MOST &&
        value == (double)(int64_t)value) {
        return (size_t)snprintf(
            text, TRP_NUMBER_BYTES, "%lld", (long long)value);
    }
    for (int digits = DIGITS_LEAST; digits <= DIGITS_MOST; digits++) {
        snprintf(local, sizeof local, "%.*g", digits, value);
        if (strtod(local, NULL) == value) {
            break;
        }
    }
    return trp_number_with_point(text, local);
}
