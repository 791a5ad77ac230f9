/* SPDX-License-Identifier: MIT */
/* Priority: alarms before orders before reports; the least important is shed.
 */
#include <troupe/troupe.h>

#include <math.h>

enum { TAG_ALARM = 1, TAG_ORDER, TAG_REPORT };

struct order {
    uint32_t value;
};

TROUPE_MSG_TYPE_EMPTY(alarm_raised, TAG_ALARM);
TROUPE_MSG_TYPE(order_placed, struct order, TAG_ORDER);
TROUPE_MSG_TYPE_EMPTY(report_wanted, TAG_REPORT);

static double
urgency(const troupe_msg *msg, void *user)
{
    const struct order *order;

    (void)user;
    switch (troupe_msg_tag(msg)) {
    case TAG_ALARM:
        return 0;
    case TAG_ORDER:
        order = troupe_payload(msg, struct order);
        return order->value > 1000 ? 1 : 2;
    case TAG_REPORT:
        return 9;
    default:
        return (double)NAN; /* cannot say: last */
    }
}

static troupe_verdict
triage_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)state;
    troupe_log(self, TROUPE_LOG_INFO, "handling %s", msg->type->name);
    return TROUPE_CONTINUE;
}

static const troupe_actor_type triage_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "triage",
    .receive = triage_receive,
};

int
main(void)
{
    static const troupe_mailbox_options mailbox = {
        .size = TROUPE_OPTIONS(troupe_mailbox_options),
        .capacity = 1000,
        .overflow = TROUPE_OVERFLOW_DROP_LOWEST,
        .priority = urgency,
        .ageing_ns = TROUPE_S(1),
    };
    static const troupe_spawn_options options = {
        .size = TROUPE_OPTIONS(troupe_spawn_options),
        .name = "triage",
        .mailbox = &mailbox,
    };
    const struct order big = {5000};
    troupe_system *system;
    troupe_ref triage;

    if (troupe_system_create(NULL, &system) != TROUPE_OK ||
        troupe_system_spawn(system, &triage_type, &options, &triage) !=
            TROUPE_OK) {
        return 1;
    }
    troupe_post_tell(system, triage, &report_wanted, NULL);
    troupe_post_tell(system, triage, &order_placed, &big);
    troupe_post_tell(system, triage, &alarm_raised, NULL);
    return troupe_system_destroy(system) == TROUPE_OK ? 0 : 1;
}
