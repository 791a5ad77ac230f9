/* SPDX-License-Identifier: MIT */
/*
 * Sessions: who does not log in within 10 s is thrown out, and who says nothing
 * for 60 s is let go. A watchman reports once a minute. What the clients do is
 * posted for later. The clock is virtual, so minutes take no time; without the
 * seed the same actors run in real time.
 */
#include <troupe/troupe.h>

#include <stdio.h>
#include <stdlib.h>

enum { TAG_LOGIN = 1, TAG_SAY, TAG_DEADLINE, TAG_REPORT };
enum { KEY_DEADLINE = 1, KEY_REPORT };

TROUPE_MSG_TYPE_EMPTY(login, TAG_LOGIN);
TROUPE_MSG_TYPE_EMPTY(say, TAG_SAY);
TROUPE_MSG_TYPE_EMPTY(deadline, TAG_DEADLINE);
TROUPE_MSG_TYPE_EMPTY(report, TAG_REPORT);

struct session {
    char name[8];
};

/* --- the session ---------------------------------------------------------- */

static unsigned
seconds(troupe_self *self)
{
    return (unsigned)(troupe_now_ns(troupe_self_system(self)) / TROUPE_S(1));
}

static void
note(troupe_self *self, const struct session *session, const char *what)
{
    printf("%3u s  %s %s\n", seconds(self), session->name, what);
}

static troupe_status
session_start(troupe_self *self, void *state, const void *arg)
{
    struct session *session = state;

    *session = *(const struct session *)arg;
    note(self, session, "has connected");
    return troupe_timer_once(self, KEY_DEADLINE, &deadline, NULL, TROUPE_S(10));
}

static troupe_verdict
session_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    const struct session *session = state;

    switch (troupe_msg_tag(msg)) {
    case TAG_LOGIN:
        note(self, session, "logs in");
        (void)troupe_timer_cancel(self, KEY_DEADLINE);
        return troupe_check(self, troupe_receive_timeout(self, TROUPE_S(60)));
    case TAG_SAY:
        note(self, session, "says something");
        return TROUPE_CONTINUE;
    case TAG_DEADLINE:
        note(self, session, "has not logged in and must go");
        return TROUPE_DONE;
    case TROUPE_TAG_IDLE:
        note(self, session, "was silent for a minute and may go");
        return TROUPE_DONE;
    default:
        return TROUPE_UNHANDLED;
    }
}

static const troupe_actor_type session_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "session",
    .state_bytes = sizeof(struct session),
    .receive = session_receive,
    .start = session_start,
};

/* --- the watchman --------------------------------------------------------- */

static troupe_status
watchman_start(troupe_self *self, void *state, const void *arg)
{
    (void)state;
    (void)arg;
    return troupe_timer_fixed_rate(
        self, KEY_REPORT, &report, NULL, TROUPE_S(60), TROUPE_S(60));
}

static troupe_verdict
watchman_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    troupe_counters counters = TROUPE_INIT(troupe_counters);
    troupe_status status =
        troupe_counters_read(troupe_self_system(self), &counters);

    (void)state;
    (void)msg;
    if (status == TROUPE_OK) {
        printf("%3u s  %u are here\n", seconds(self),
            (unsigned)counters.actors - 1);
    }
    return troupe_check(self, status);
}

static const troupe_actor_type watchman_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "watchman",
    .receive = watchman_receive,
    .start = watchman_start,
};

/* --- main ----------------------------------------------------------------- */

static void
must(troupe_status status)
{
    char text[256];

    if (status != TROUPE_OK) {
        (void)troupe_explain(status, text, sizeof text);
        (void)fprintf(stderr, "session: %s\n", text);
        exit(1);
    }
}

static troupe_ref
connect_as(troupe_system *system, const char *name)
{
    troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);
    struct session session;
    troupe_ref ref = TROUPE_NONE;

    (void)snprintf(session.name, sizeof session.name, "%s", name);
    options.arg = &session;
    options.arg_bytes = sizeof session;
    must(troupe_system_spawn(system, &session_type, &options, &ref));
    return ref;
}

static troupe_delayed
later(troupe_system *system, troupe_ref to, const troupe_msg_type *type,
    uint64_t seconds_from_now)
{
    troupe_delayed delayed;

    must(troupe_post_after(
        system, to, type, NULL, TROUPE_S(seconds_from_now), &delayed));
    return delayed;
}

int
main(void)
{
    troupe_system_options options = TROUPE_INIT(troupe_system_options);
    troupe_system *system = NULL;
    troupe_ref ada, ref = TROUPE_NONE;
    troupe_delayed never;

    options.flags = TROUPE_SYSTEM_DRIVEN;
    options.seed = 1;
    must(troupe_system_create(&options, &system));
    must(troupe_system_spawn(system, &watchman_type, NULL, &ref));
    ada = connect_as(system, "Ada");
    must(troupe_system_run(system, 0, NULL));
    ref = connect_as(system, "Bob");
    later(system, ada, &login, 3);
    later(system, ada, &say, 50);
    never = later(system, ada, &say, 100);
    later(system, ada, &say, 105);
    (void)troupe_delayed_cancel(system, never); /* Ada has thought better */
    must(troupe_system_advance(system, TROUPE_S(200)));
    must(troupe_system_destroy(system));
    return 0;
}
