/* error: invalid conversion from */
/* SPDX-License-Identifier: MIT */
#include "../job.h"

static double
rank(const troupe_msg *, void *)
{
    throw 1;
}

troupe_mailbox_options options();

troupe_mailbox_options
options()
{
    troupe_mailbox_options options = TROUPE_INIT(troupe_mailbox_options);

    options.priority = rank;
    return options;
}
