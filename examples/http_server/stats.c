/* SPDX-License-Identifier: MIT */
#include "stats.h"

#include "counters.h"
#include "loop.h"
#include "server.h"
#include "worker.h"

#include <jansson.h>
#include <string.h>

/* json_object_set_new() takes the value also when it fails or gets NULL. */
static bool
set_number(json_t *object, const char *name, uint64_t value)
{
    return json_object_set_new(object, name, json_integer((json_int_t)value)) ==
           0;
}

static json_t *
loop_numbers(const struct loop_counters *counters)
{
    json_t *object = json_object();
    bool good = object != NULL;

#define LOOP_COUNTER_SET(name)                                                 \
    good = good && set_number(object, #name, counter_read(&counters->name));
    LOOP_COUNTER_MAP(LOOP_COUNTER_SET)
#undef LOOP_COUNTER_SET
    if (!good) {
        json_decref(object);
        return NULL;
    }
    return object;
}

static json_t *
loops_array(const struct server *server)
{
    json_t *array = json_array();

    for (uint32_t i = 0; i < server->loop_count && array != NULL; i++) {
        if (json_array_append_new(
                array, loop_numbers(loop_counters(server->loops, i))) != 0) {
            json_decref(array);
            return NULL;
        }
    }
    return array;
}

static json_t *
runtime_numbers(const struct server *server)
{
    troupe_counters counters = TROUPE_INIT(troupe_counters);
    json_t *object = json_object();
    bool good = object != NULL;

    good = good && troupe_counters_read(server->system, &counters) == TROUPE_OK;
#define COUNTER_SET(name, kind, help)                                          \
    good = good && set_number(object, #name, counters.name);
    TROUPE_COUNTER_MAP(COUNTER_SET)
#undef COUNTER_SET
    if (!good) {
        json_decref(object);
        return NULL;
    }
    return object;
}

static json_t *
router_numbers(const struct server *server)
{
    troupe_router_counters counters = TROUPE_INIT(troupe_router_counters);

    if (troupe_router_counters_read(server->system, server->pool, &counters) !=
        TROUPE_OK) {
        return NULL;
    }
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "routing",
        server->options.routing->name, "routees", (json_int_t)counters.routees,
        "routed", (json_int_t)counters.routed, "empty",
        (json_int_t)counters.empty, "refused", (json_int_t)counters.refused,
        "waited", (json_int_t)counters.waited, "pick_samples",
        (json_int_t)counters.pick_samples, "pick_ns",
        (json_int_t)counters.pick_ns);
}

static bool
add_actor(const troupe_actor_info *info, void *user)
{
    json_t *array = user;
    const char *name = strrchr(info->path, '/');
    json_t *object;

    if (strcmp(info->type, worker_type.name) != 0) {
        return true;
    }
    object = json_pack("{s:s, s:I, s:I}", "name",
        name != NULL ? name + 1 : info->path, "handled",
        (json_int_t)info->handled, "depth", (json_int_t)info->depth);
    return json_array_append_new(array, object) == 0;
}

/* How evenly the requests went: messages taken by each actor of the pool. */
static json_t *
actors_array(const struct server *server)
{
    json_t *array = json_array();

    if (array != NULL && troupe_inspect(server->system, "/user/pool", add_actor,
                             array) != TROUPE_OK) {
        json_decref(array);
        return NULL;
    }
    return array;
}

char *
stats_text(const struct server *server, size_t *length)
{
    json_t *root = json_pack("{s:s, s:I, s:I, s:o, s:o, s:o, s:o}", "version",
        troupe_version_text(), "uptime_ms",
        (json_int_t)(troupe_now_ns(server->system) / 1000000), "inflight",
        (json_int_t)counter_read(&server->inflight), "loops",
        loops_array(server), "troupe", runtime_numbers(server), "router",
        router_numbers(server), "actors", actors_array(server));
    char *text = root != NULL ? json_dumps(root, JSON_INDENT(2)) : NULL;

    json_decref(root);
    *length = text != NULL ? strlen(text) : 0;
    return text;
}
