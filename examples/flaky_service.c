/* SPDX-License-Identifier: MIT */
/*
 * A service that fails for a while, and a thread that depends on it. A retry
 * gets over single failures; a breaker keeps everybody away from a service that
 * is down, and lets one call in to see whether it is back.
 */
#include <troupe/troupe.h>

#include <stdio.h>
#include <stdlib.h>

enum { CODE_DOWN = 1, CODE_NOT_CALLED };

struct client {
    troupe_breaker *breaker;
    int calls; /* that reached the service */
};

/* The first four calls find it down. */
static int32_t
call_service(struct client *client)
{
    client->calls++;
    return client->calls <= 4 ? CODE_DOWN : 0;
}

/* One attempt: through the breaker, which hears how it went. */
static int32_t
attempt(uint32_t number, void *user)
{
    struct client *client = user;
    troupe_permit permit;
    int32_t code;

    (void)number;
    if (troupe_breaker_enter(client->breaker, &permit) != TROUPE_OK) {
        return CODE_NOT_CALLED;
    }
    code = call_service(client);
    troupe_breaker_leave(
        client->breaker, permit, code == 0 ? TROUPE_OK : TROUPE_E_FAILED, code);
    return code;
}

/* Who is in a hurry does not wait for a service that is known to be down. */
static bool
is_worth_it(uint32_t number, troupe_status status, int32_t code, void *user)
{
    (void)number;
    (void)status;
    (void)user;
    return code != CODE_NOT_CALLED;
}

static void
fetch(struct client *client, const char *who, uint32_t attempts,
    const troupe_backoff *backoff, troupe_should_retry_fn should_retry)
{
    troupe_retry_options options = TROUPE_INIT(troupe_retry_options);
    int before = client->calls;
    int32_t code = 0;
    troupe_status status;

    options.attempts = attempts;
    options.deadline_ns = TROUPE_S(60);
    options.backoff = backoff;
    options.should_retry = should_retry;
    status = troupe_retry_wait(&options, attempt, client, &code);
    printf("%s: %s, %d calls\n", who,
        status == TROUPE_OK       ? "answered"
        : code == CODE_NOT_CALLED ? "the breaker is open"
                                  : "it is down",
        client->calls - before);
}

static void
on_change(troupe_breaker *breaker, troupe_breaker_state state, void *user)
{
    static const char *const names[] = {"closed", "open", "half open"};

    (void)breaker;
    (void)user;
    printf("breaker: %s\n", names[state]);
}

int
main(void)
{
    static const troupe_breaker_options options = {
        .size = TROUPE_OPTIONS(troupe_breaker_options),
        .name = "service",
        .max_failures = 3,
        .reset_ns = TROUPE_MS(500),
        .listen = on_change,
    };
    static const troupe_backoff quick = {
        .size = TROUPE_OPTIONS(troupe_backoff),
        .min_ns = TROUPE_MS(1),
        .max_ns = TROUPE_MS(10),
    };
    static const troupe_backoff patient = {
        .size = TROUPE_OPTIONS(troupe_backoff),
        .min_ns = TROUPE_MS(10),
        .max_ns = TROUPE_MS(100),
    };
    struct client client = {0};
    troupe_system *system = NULL;
    char why[160];
    troupe_status status = troupe_system_create(NULL, &system);

    if (status == TROUPE_OK) {
        status = troupe_breaker_create(system, &options, &client.breaker);
    }
    if (status == TROUPE_OK) {
        fetch(&client, "quick", 5, &quick, is_worth_it);
        fetch(&client, "quick", 5, &quick, is_worth_it);
        fetch(&client, "patient", 1000, &patient, NULL);
    } else {
        troupe_explain(status, why, sizeof why);
        fprintf(stderr, "flaky_service: %s\n", why);
    }
    troupe_breaker_destroy(client.breaker); /* before its system */
    troupe_system_destroy(system);
    return status == TROUPE_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
