/* SPDX-License-Identifier: MIT */
#include "system/mailbox_options.h"

#include "base/error.h"
#include "base/options.h"

#define CAPACITY_MOST 1000000000u

static const char *const overflows[] = {
    "reject", "drop-new", "drop-head", "drop-lowest"};

static troupe_status
refuse(const char *call, const char *option, const char *rule,
    const troupe_mailbox_options *options)
{
    return trp_refuse(TROUPE_E_INVALID, call, option, rule, "%s",
        overflows[options->overflow]);
}

static troupe_status
check_capacity(const troupe_mailbox_options *options, const char *call)
{
    if (options->capacity > CAPACITY_MOST) {
        return trp_refuse(TROUPE_E_INVALID, call, "mailbox.capacity",
            "must be at most 1000000000", "%u", options->capacity);
    }
    if ((uint32_t)options->overflow > TROUPE_OVERFLOW_DROP_LOWEST) {
        return trp_refuse(TROUPE_E_INVALID, call, "mailbox.overflow",
            "must be TROUPE_OVERFLOW_*", "%u", (uint32_t)options->overflow);
    }
    if (options->overflow != TROUPE_OVERFLOW_REJECT && options->capacity == 0) {
        return refuse(
            call, "mailbox.overflow", "needs mailbox.capacity", options);
    }
    if (options->overflow == TROUPE_OVERFLOW_DROP_HEAD &&
        options->priority != NULL) {
        return refuse(call, "mailbox.overflow",
            "must not be drop-head with mailbox.priority", options);
    }
    if (options->overflow == TROUPE_OVERFLOW_DROP_LOWEST &&
        options->priority == NULL) {
        return refuse(call, "mailbox.overflow",
            "must not be drop-lowest without mailbox.priority", options);
    }
    return TROUPE_OK;
}

/* What has no meaning without something else. */
static troupe_status
check_alone(const troupe_mailbox_options *options, const char *call)
{
    if ((options->flags & ~(uint32_t)TROUPE_MAILBOX_DEAD_LETTER_DROPS) != 0) {
        return trp_refuse(TROUPE_E_INVALID, call, "mailbox.flags",
            "must be TROUPE_MAILBOX_*", "0x%x", options->flags);
    }
    if (options->warn_depth == 1 ||
        (options->warn_depth > CAPACITY_MOST &&
            options->warn_depth != TROUPE_WARN_NEVER)) {
        return trp_refuse(TROUPE_E_INVALID, call, "mailbox.warn_depth",
            "must be between 2 and 1000000000, or TROUPE_WARN_NEVER", "%u",
            options->warn_depth);
    }
    if (options->priority == NULL && options->on_unrankable != NULL) {
        return trp_refuse(TROUPE_E_INVALID, call, "mailbox.on_unrankable",
            "needs mailbox.priority", "%s", "no priority");
    }
    if (options->priority == NULL && options->ageing_ns != 0) {
        return trp_refuse(TROUPE_E_INVALID, call, "mailbox.ageing_ns",
            "needs mailbox.priority", "%llu",
            (unsigned long long)options->ageing_ns);
    }
    return TROUPE_OK;
}

static troupe_status
check_custom(const troupe_mailbox_options *options, const char *call)
{
    const troupe_custom_mailbox *custom = options->custom;
    troupe_custom_mailbox copy;
    troupe_status status = trp_options_copy(&copy, sizeof copy, custom, call);

    if (status != TROUPE_OK) {
        return status;
    }
    if (custom->size < sizeof copy) {
        return trp_refuse(TROUPE_E_INVALID, call, "mailbox.custom.size",
            "must be set with TROUPE_OPTIONS()", "%zu", custom->size);
    }
    if (custom->name == NULL || custom->open == NULL || custom->close == NULL ||
        custom->enqueue == NULL || custom->enqueue_undroppable == NULL ||
        custom->prepend == NULL || custom->dequeue == NULL ||
        custom->length == NULL) {
        return trp_refuse(TROUPE_E_INVALID, call, "mailbox.custom",
            "must have a name and all functions", "%s",
            custom->name != NULL ? custom->name : "no name");
    }
    if (options->capacity != 0 || options->priority != NULL) {
        return trp_refuse(TROUPE_E_INVALID, call, "mailbox.custom",
            "must be alone, without capacity and priority", "%s", custom->name);
    }
    return TROUPE_OK;
}

troupe_status
trp_mailbox_options_check(troupe_mailbox_options *copy,
    const troupe_mailbox_options *given, const char *call)
{
    troupe_status status = trp_options_copy(copy, sizeof *copy, given, call);

    if (status == TROUPE_OK) {
        status = check_capacity(copy, call);
    }
    if (status == TROUPE_OK) {
        status = check_alone(copy, call);
    }
    if (status == TROUPE_OK && copy->custom != NULL) {
        status = check_custom(copy, call);
    }
    return status;
}
