/* SPDX-License-Identifier: MIT */
#include "base/options.h"

#include "base/error.h"

#include <string.h>

troupe_status
trp_options_copy(void *to, size_t known, const void *from, const char *call)
{
    const unsigned char *bytes = from;
    size_t given;

    if (from == NULL) {
        return trp_refuse(
            TROUPE_E_INVALID, call, "options", "must not be NULL", "NULL");
    }
    memcpy(&given, from, sizeof given);
    if (given < sizeof given) {
        return trp_refuse(TROUPE_E_INVALID, call, "size",
            "must be set with TROUPE_OPTIONS() or TROUPE_INIT()", "%zu", given);
    }
    for (size_t i = known; i < given; i++) {
        if (bytes[i] != 0) {
            return trp_refuse(TROUPE_E_VERSION, call, "size",
                "has members that this library does not know", "%zu", given);
        }
    }
    memset(to, 0, known);
    memcpy(to, from, given < known ? given : known);
    return TROUPE_OK;
}
