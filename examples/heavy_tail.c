/* SPDX-License-Identifier: MIT */
/*
 * What a strategy is worth when few jobs are long: 99 % take 1 us, 1 % take
 * 1 ms, 16 routees share them. How long each job takes from the moment it was
 * due, which a schedule says beforehand (so a late sender hides no waiting),
 * is printed as CSV; tools/plot-heavy-tail makes a picture of it.
 *
 *   heavy_tail              on this machine: jobs compute, workers share CPUs
 *   heavy_tail --simulate   in virtual time: each routee has all the time it
 *                           needs, as if it had a CPU or waited for a device
 */
#include <troupe/troupe.h>

#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

enum { TAG_JOB = 1, ROUTEES = 16, LIGHT_US = 1, HEAVY_US = 1000 };
enum { HEAVY_IN = 100 }; /* one of so many is heavy */
/* A microsecond is a second of virtual time: timers are exact enough then. */
#define VIRTUAL_US TROUPE_S(1)

TROUPE_MSG_TYPE(job_type, uint32_t, TAG_JOB);

struct job {
    uint64_t due_ns; /* since the first one */
    uint64_t took_ns;
    bool is_heavy;
};

struct experiment {
    bool is_simulated;
    uint32_t workers;
    uint32_t servers; /* that can compute at a time */
    uint32_t load_percent;
    uint32_t count;
    struct job *jobs;
    uint64_t spins_per_us;
    uint64_t began_ns;
    troupe_system *system;
};

static void
must(troupe_status status)
{
    if (status != TROUPE_OK) {
        char why[200];

        troupe_explain(status, why, sizeof why);
        fprintf(stderr, "heavy_tail: %s\n", why);
        exit(EXIT_FAILURE);
    }
}

/* --- time ----------------------------------------------------------------- */

static uint64_t
clock_ns(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t
unit_ns(const struct experiment *experiment)
{
    return experiment->is_simulated ? VIRTUAL_US : TROUPE_US(1);
}

/* Since the first job was due. */
static uint64_t
now_ns(const struct experiment *experiment)
{
    return (experiment->is_simulated ? troupe_now_ns(experiment->system)
                                     : clock_ns(CLOCK_MONOTONIC)) -
           experiment->began_ns;
}

static uint64_t
cost_us(const struct job *job)
{
    return job->is_heavy ? HEAVY_US : LIGHT_US;
}

/*
 * Work of a fixed size: who is interrupted has the rest of it to do still. One
 * chain of multiplications in registers, and one copy of the code: it takes
 * wherever it is called what it took when it was calibrated.
 */
static __attribute__((noinline)) uint64_t
compute(uint64_t spins)
{
    uint64_t number = spins;

    for (uint64_t i = 0; i < spins; i++) {
        number = number * 6364136223846793005u + 1442695040888963407u;
    }
    return number;
}

/* The best of some tries: the others were disturbed. */
static uint64_t
calibrate(void)
{
    const uint64_t spins = 1000000;
    volatile uint64_t number = 0; /* so that it is computed */
    uint64_t best_ns = UINT64_MAX;

    for (int i = 0; i < 20; i++) {
        uint64_t began_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
        uint64_t took_ns;

        number = compute(spins);
        took_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - began_ns;
        best_ns = took_ns < best_ns ? took_ns : best_ns;
    }
    (void)number;
    return spins * 1000 / best_ns;
}

/* --- routees -------------------------------------------------------------- */

struct routee {
    struct experiment *experiment;
    uint64_t number; /* what it has computed */
    struct job *job; /* of a simulation: that it is at */
};

static troupe_status
routee_start(troupe_self *self, void *state, const void *arg)
{
    struct routee *routee = state;

    (void)self;
    routee->experiment = *(struct experiment *const *)arg;
    return TROUPE_OK;
}

static void
finish(const struct routee *routee, struct job *job)
{
    job->took_ns = now_ns(routee->experiment) - job->due_ns;
}

static troupe_verdict
on_simulated(
    troupe_self *self, void *state, const troupe_result *result, void *user)
{
    struct routee *routee = state;

    (void)self;
    (void)user;
    if (result->status == TROUPE_OK) {
        finish(routee, routee->job);
    }
    return TROUPE_CONTINUE;
}

static troupe_verdict
routee_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct routee *routee = state;
    struct experiment *experiment = routee->experiment;
    struct job *job = &experiment->jobs[*troupe_payload(msg, uint32_t)];
    troupe_ticket ticket;

    if (!experiment->is_simulated) {
        routee->number ^= compute(cost_us(job) * experiment->spins_per_us);
        finish(routee, job);
        return TROUPE_CONTINUE;
    }
    routee->job = job;
    return troupe_await(self,
        troupe_sleep(self, cost_us(job) * VIRTUAL_US,
            troupe_then(on_simulated, NULL), &ticket),
        &ticket);
}

static const troupe_actor_type routee_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "routee",
    .state_bytes = sizeof(struct routee),
    .receive = routee_receive,
    .start = routee_start,
};

/* --- the schedule --------------------------------------------------------- */

static double
random_of(uint64_t *x)
{
    *x = *x * 6364136223846793005u + 1442695040888963407u;
    return ((double)(*x >> 11) + 0.5) / 9007199254740992.0; /* in (0, 1) */
}

/* Poisson arrivals, the same for every strategy. */
static void
make_schedule(struct experiment *experiment)
{
    double mean_us = LIGHT_US + (double)(HEAVY_US - LIGHT_US) / HEAVY_IN;
    double gap_us =
        mean_us * 100 / experiment->load_percent / experiment->servers;
    double at_us = 0;
    uint64_t x = 1;

    for (uint32_t i = 0; i < experiment->count; i++) {
        at_us -= gap_us * log(random_of(&x));
        experiment->jobs[i] = (struct job){
            .due_ns = (uint64_t)(at_us * (double)unit_ns(experiment)),
            .is_heavy = random_of(&x) < 1.0 / HEAVY_IN};
    }
}

/* --- one strategy --------------------------------------------------------- */

struct strategy {
    const char *name;
    troupe_routing routing;
};

static const struct strategy strategies[] = {
    {"round robin", TROUPE_ROUTE_ROUND_ROBIN},
    {"random", TROUPE_ROUTE_RANDOM},
    {"two choices", TROUPE_ROUTE_TWO_CHOICES},
    {"smallest mailbox", TROUPE_ROUTE_SMALLEST_MAILBOX},
    {"least in flight", TROUPE_ROUTE_LEAST_IN_FLIGHT},
};

static troupe_ref
start_system(struct experiment *experiment, troupe_routing routing)
{
    troupe_system_options options = TROUPE_INIT(troupe_system_options);
    troupe_router_options router = TROUPE_INIT(troupe_router_options);
    troupe_spawn_options each = TROUPE_INIT(troupe_spawn_options);
    troupe_ref ref;

    options.mailbox_warn = TROUPE_WARN_NEVER;
    if (experiment->is_simulated) {
        options.flags = TROUPE_SYSTEM_DRIVEN;
        options.seed = 1;
    } else {
        options.workers = experiment->workers;
    }
    must(troupe_system_create(&options, &experiment->system));
    each.arg = &experiment;
    each.arg_bytes = sizeof experiment;
    router.type = &routee_type;
    router.routee_options = &each;
    router.routees = ROUTEES;
    router.routing = routing;
    router.seed = 1;
    must(troupe_system_spawn_router(experiment->system, &router, &ref));
    must(troupe_system_await_idle(experiment->system, TROUPE_S(10)));
    return ref;
}

/* Spins rather than sleeps: who is woken is late. */
static void
wait_until(const struct experiment *experiment, uint64_t due_ns)
{
    uint64_t now = now_ns(experiment);

    if (experiment->is_simulated) {
        must(troupe_system_advance(
            experiment->system, due_ns > now ? due_ns - now : 0));
        return;
    }
    while (now_ns(experiment) < due_ns) {
    }
}

/* Every job was handled, once, and nothing else was sent. */
static void
check_counts(const struct experiment *experiment)
{
    troupe_counters counters = TROUPE_INIT(troupe_counters);
    uint32_t missing = 0;

    must(troupe_counters_read(experiment->system, &counters));
    for (uint32_t i = 0; i < experiment->count; i++) {
        missing += experiment->jobs[i].took_ns == 0;
    }
    if (missing != 0 || counters.sent != counters.handled) {
        fprintf(stderr, "heavy_tail: %u jobs were lost\n", missing);
        exit(EXIT_FAILURE);
    }
}

/* With a load below 100 % little waits in the end, if the CPUs are ours. */
static void
warn_of_backlog(const struct experiment *experiment)
{
    troupe_counters counters = TROUPE_INIT(troupe_counters);

    must(troupe_counters_read(experiment->system, &counters));
    if (counters.queued > 1000 && counters.queued > experiment->count / 20) {
        fprintf(stderr,
            "heavy_tail: %llu jobs wait in the end: this machine does other "
            "things too, and the load was higher than said\n",
            (unsigned long long)counters.queued);
    }
}

static void
run(struct experiment *experiment, troupe_routing routing)
{
    troupe_ref router = start_system(experiment, routing);

    make_schedule(experiment);
    experiment->began_ns = 0;
    experiment->began_ns = now_ns(experiment);
    for (uint32_t i = 0; i < experiment->count; i++) {
        wait_until(experiment, experiment->jobs[i].due_ns);
        must(troupe_post(experiment->system, router, &job_type, &i));
    }
    if (experiment->is_simulated) {
        must(troupe_system_advance(
            experiment->system, experiment->count * HEAVY_US * VIRTUAL_US));
    }
    warn_of_backlog(experiment);
    must(troupe_system_await_idle(experiment->system, TROUPE_S(300)));
    check_counts(experiment);
    must(troupe_system_destroy(experiment->system));
}

/* --- what is printed ------------------------------------------------------ */

static int
compare(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left;
    uint64_t b = *(const uint64_t *)right;

    return (a > b) - (a < b);
}

static double
percentile(const uint64_t *sorted, size_t count, size_t per_mille)
{
    return count == 0 ? 0 : (double)sorted[(count - 1) * per_mille / 1000];
}

/* One line: of all jobs, or only of the light or the heavy ones. */
static void
print_line(const struct experiment *experiment, const char *strategy,
    const char *kind, uint64_t *sorted)
{
    double us = (double)unit_ns(experiment);
    size_t count = 0;

    for (uint32_t i = 0; i < experiment->count; i++) {
        const struct job *job = &experiment->jobs[i];

        if (strcmp(kind, "all") == 0 ||
            job->is_heavy == (strcmp(kind, "heavy") == 0)) {
            sorted[count++] = job->took_ns;
        }
    }
    qsort(sorted, count, sizeof *sorted, compare);
    printf("%s,%s,%zu,%.1f,%.1f,%.1f\n", strategy, kind, count,
        percentile(sorted, count, 500) / us,
        percentile(sorted, count, 990) / us,
        percentile(sorted, count, 999) / us);
}

static void
print_cpu(void)
{
    char line[256];
    FILE *file = fopen("/proc/cpuinfo", "re");

    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, "model name", 10) == 0) {
            printf("# CPU%s", strchr(line, ':'));
            break;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
}

static void
print_environment(const struct experiment *experiment, uint32_t cpus)
{
    struct utsname name;

    printf("# %u jobs, %d%% of %d us, the others of %d us, %d routees\n",
        experiment->count, 100 / HEAVY_IN, HEAVY_US, LIGHT_US, ROUTEES);
    if (experiment->is_simulated) {
        printf("# virtual time, load %u%% of %d routees that serve at once\n",
            experiment->load_percent, ROUTEES);
    } else {
        char date[32];
        time_t now = time(NULL);
        struct tm utc;

        gmtime_r(&now, &utc);
        strftime(date, sizeof date, "%Y-%m-%d", &utc);
        uname(&name);
        printf("# %u workers, load %u%% of %u of %u CPUs; one sends\n",
            experiment->workers, experiment->load_percent, experiment->servers,
            cpus);
        print_cpu();
        printf("# %s %s %s, troupe %s, %s\n", name.sysname, name.release,
            name.machine, troupe_version_text(), date);
    }
    printf("strategy,jobs,count,p50_us,p99_us,p99_9_us\n");
}

/* --- arguments ------------------------------------------------------------ */

static uint32_t
usable_cpus(void)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    return sched_getaffinity(0, sizeof set, &set) == 0
               ? (uint32_t)CPU_COUNT(&set)
               : 1;
}

/* `name N`; exits with 2 if it is not a number from 1 to `most`. */
static uint32_t
number(const char *name, const char *text, unsigned long most)
{
    char *end = NULL;
    unsigned long value = text != NULL ? strtoul(text, &end, 10) : 0;

    if (text == NULL || end == text || *end != '\0' || value == 0 ||
        value > most) {
        fprintf(stderr,
            "heavy_tail: %s must be a whole number from 1 to %lu (got "
            "\"%s\")\n",
            name, most, text != NULL ? text : "");
        exit(2);
    }
    return (uint32_t)value;
}

static void
parse(struct experiment *experiment, char **argument)
{
    for (; *argument != NULL; argument++) {
        if (strcmp(*argument, "--simulate") == 0) {
            experiment->is_simulated = true;
        } else if (strcmp(*argument, "--workers") == 0) {
            argument++;
            experiment->workers = number("--workers", *argument, 1024);
        } else if (strcmp(*argument, "--load") == 0) {
            argument++;
            experiment->load_percent = number("--load", *argument, 99);
        } else if (strcmp(*argument, "--jobs") == 0) {
            argument++;
            experiment->count = number("--jobs", *argument, 10000000);
        } else {
            fprintf(stderr,
                "Usage: heavy_tail [--simulate] [--workers N] [--load PERCENT]"
                " [--jobs N]\n");
            exit(2);
        }
        if (*argument == NULL) {
            return;
        }
    }
}

int
main(int argc, char **argv)
{
    uint32_t cpus = usable_cpus();
    struct experiment experiment = {.workers = cpus > 1 ? cpus - 1 : 1,
        .load_percent = 70,
        .count = 200000};
    uint64_t *sorted;

    (void)argc;
    parse(&experiment, argv + 1);
    experiment.servers = cpus > 1 ? cpus - 1 : 1;
    if (experiment.workers < experiment.servers) {
        experiment.servers = experiment.workers;
    }
    if (experiment.is_simulated) {
        experiment.servers = ROUTEES;
    }
    experiment.jobs = calloc(experiment.count, sizeof *experiment.jobs);
    sorted = calloc(experiment.count, sizeof *sorted);
    if (experiment.jobs == NULL || sorted == NULL) {
        must(TROUPE_E_NOMEM);
    }
    experiment.spins_per_us = experiment.is_simulated ? 0 : calibrate();
    print_environment(&experiment, cpus);
    for (size_t i = 0; i < sizeof strategies / sizeof strategies[0]; i++) {
        run(&experiment, strategies[i].routing);
        print_line(&experiment, strategies[i].name, "all", sorted);
        print_line(&experiment, strategies[i].name, "light", sorted);
        print_line(&experiment, strategies[i].name, "heavy", sorted);
    }
    free(sorted);
    free(experiment.jobs);
    return EXIT_SUCCESS;
}
