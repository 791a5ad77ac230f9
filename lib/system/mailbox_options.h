/* SPDX-License-Identifier: MIT */
#ifndef TRP_SYSTEM_MAILBOX_OPTIONS_H
#define TRP_SYSTEM_MAILBOX_OPTIONS_H

#include <troupe/mailbox.h>

/* A complete copy of what can be carried out; refusals name the option. */
troupe_status trp_mailbox_options_check(troupe_mailbox_options *copy,
    const troupe_mailbox_options *given, const char *call);

#endif /* TRP_SYSTEM_MAILBOX_OPTIONS_H */
