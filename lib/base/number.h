/* SPDX-License-Identifier: MIT */
#ifndef TRP_BASE_NUMBER_H
#define TRP_BASE_NUMBER_H

#include <stddef.h>

#define TRP_NUMBER_BYTES 40u

/*
 * The shortest decimal that reads back as the same double (of those below
 * 1e-307 a longer one), "NaN", "+Inf" or "-Inf". With a point whatever the
 * locale says; whole numbers below 1e15 without point and exponent. `text` has
 * TRP_NUMBER_BYTES. Returns the length.
 */
size_t trp_number_write(char *text, double value);

/*
 * A number as printf() writes it in whatever locale: what stands for the point
 * there becomes one. `to` has room for as much as `from`. Returns the length.
 */
size_t trp_number_with_point(char *to, const char *from);

#endif /* TRP_BASE_NUMBER_H */
