/* SPDX-License-Identifier: MIT */

/* Rows that measure what a million idle actors cost. */

#include "rows.h"

#include <stdio.h>
#include <string.h>

enum { ACTORS = 1000000 };

/* 16 bytes, of which the workload uses one integer. */
struct idler {
    int64_t value;
    int64_t reserved;
};

static troupe_ref actors[ACTORS];

static troupe_verdict
idler_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct idler *idler = state;

    idler->value += *troupe_payload(msg, int64_t);
    bench_count_down(self, idler->value);
    return TROUPE_CONTINUE;
}

static const troupe_actor_type idler_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "idler",
    .state_bytes = sizeof(struct idler),
    .receive = idler_receive,
};

static void
note_growth(struct bench *bench, long before_kb)
{
    struct bench_result *result = &bench->result;

    result->messages = ACTORS;
    result->rss_kb = bench_status_kb("VmRSS") - before_kb;
    snprintf(result->note, sizeof result->note, "%ld bytes per actor",
        result->rss_kb * 1024 / ACTORS);
}

/* From outside, as the peers do it. Returns the RSS before, in KiB. */
static long
spawn_all(struct bench *bench)
{
    long before_kb = 0;

    memset(actors, 0xff, sizeof actors); /* touched before RSS is read */
    bench_begin(bench);
    before_kb = bench_status_kb("VmRSS");
    bench->began_ns = bench_now_ns();
    for (int i = 0; i < ACTORS; i++) {
        bench_must(
            troupe_system_spawn(bench->system, &idler_type, NULL, &actors[i]),
            "spawn of an idler");
    }
    bench->result.seconds = (double)(bench_now_ns() - bench->began_ns) * 1e-9;
    return before_kb;
}

void
bench_memory(struct bench *bench)
{
    note_growth(bench, spawn_all(bench));
}

void
bench_memwarm(struct bench *bench)
{
    long before_kb = spawn_all(bench);

    bench_count_down_from(ACTORS);
    bench_begin(bench);
    for (int i = 0; i < ACTORS; i++) {
        bench_post_number(bench, actors[i], 1);
    }
    bench_expect(bench_wait(bench) == ACTORS, "sum of states");
    note_growth(bench, before_kb);
}
