/* SPDX-License-Identifier: MIT */
#include <troupe/version.h>

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

uint32_t
troupe_version(void)
{
    return TROUPE_VERSION_NUMBER;
}

const char *
troupe_version_text(void)
{
    return TEXT(TROUPE_VERSION_MAJOR) "." TEXT(TROUPE_VERSION_MINOR) "." TEXT(
        TROUPE_VERSION_PATCH);
}
