/* SPDX-License-Identifier: MIT */
/* No threads at all: the host's own poll() loop runs the actors. */
#include <troupe/troupe.h>

#include <poll.h>
#include <stdio.h>

static troupe_status
unbind(troupe_system *system, const char *reason, void *user)
{
    (void)user;
    troupe_system_log(system, TROUPE_LOG_INFO, "closing: %s", reason);
    return TROUPE_OK;
}

static void
loop(troupe_system *system)
{
    struct pollfd fd = {.fd = troupe_system_fd(system), .events = POLLIN};

    while (troupe_system_run(system, 100, NULL) == TROUPE_OK) {
        poll(&fd, 1, -1);
    }
}

int
main(void)
{
    const troupe_system_options options = {
        .size = TROUPE_OPTIONS(troupe_system_options),
        .name = "embedded",
        .flags = TROUPE_SYSTEM_DRIVEN | TROUPE_SYSTEM_IGNORE_ENV,
    };
    char text[2048];
    troupe_system *system;
    troupe_status status = troupe_system_create(&options, &system);

    if (status != TROUPE_OK) {
        troupe_error error = troupe_last_error();

        fprintf(stderr, "%s %s: %s\n", error.call, error.option, error.rule);
        return 1;
    }
    troupe_system_describe(system, text, sizeof text);
    fputs(text, stdout);
    if (troupe_shutdown_add(system, TROUPE_PHASE_SERVICE_UNBIND, "listener",
            unbind, NULL) != TROUPE_OK) {
        return 1;
    }
    loop(system);
    troupe_shutdown_request(system, "end of demo");
    status = troupe_system_destroy(system);
    if (status == TROUPE_E_TIMEOUT) {
        troupe_ref busy[8];
        size_t count = troupe_system_busy(system, busy, 8);

        for (size_t i = 0; i < count && i < 8; i++) {
            char path[256];

            troupe_path(system, busy[i], path, sizeof path);
            fprintf(stderr, "still busy: %s\n", path);
        }
        return 1;
    }
    return status == TROUPE_OK ? 0 : 1;
}
