// The limits that an actor runtime can be compared with, by hand in C.
//
//   bench NAME THREADS [SCALE]
//
// THREADS=2 pingpong, count: two pinned, spinning pthreads, ck_ring SPSC.
// THREADS=2 n1:              as above through one ck_ring MPSC (one producer
//                            thread plays 64 senders in turn), and "n1fifo"
//                            through a linked MPSC queue with malloc'ed nodes.
// THREADS=1 (most names):    one thread; messages {target, kind, payload} go
//                            through one array ring and are dispatched by a
//                            call through a function pointer. No actor queues,
//                            no scheduling: what one core can do at most.
#define _GNU_SOURCE
#include <ck_ring.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double scale = 1;
static int threads;

static double
now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static long
status_kb(const char *key)
{
    char line[256];
    long kb = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (fgets(line, sizeof line, f))
        if (!strncmp(line, key, strlen(key)))
            kb = strtol(line + strlen(key) + 1, NULL, 10);
    fclose(f);
    return kb;
}

static void
report(const char *name, double secs, int64_t msgs)
{
    printf("%s,hand,%d,%.9f,%ld,%.0f,%ld\n", name, threads, secs, (long)msgs,
        msgs / secs, status_kb("VmHWM"));
}

static int64_t
scaled(int64_t n)
{
    n = (int64_t)(n * scale);
    return n > 0 ? n : 1;
}

static uint32_t
rnd(uint64_t *x, uint32_t n)
{
    *x = *x * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(*x >> 33) % n;
}

static void
pin(int cpu)
{
    cpu_set_t s;
    CPU_ZERO(&s);
    CPU_SET(cpu, &s);
    pthread_setaffinity_np(pthread_self(), sizeof s, &s);
}

static inline void
relax(void)
{
    __builtin_ia32_pause();
}

// ---- two threads
// ------------------------------------------------------------------

enum { RING = 1024 };
typedef struct {
    ck_ring_t ring;
    ck_ring_buffer_t buf[RING];
} channel;
static _Alignas(64) channel ca;
static _Alignas(64) channel cb;
static int64_t total;

static void
put_spsc(channel *c, void *p)
{
    while (!ck_ring_enqueue_spsc(&c->ring, c->buf, p))
        relax();
}
static void *
get_spsc(channel *c)
{
    void *p;
    while (!ck_ring_dequeue_spsc(&c->ring, c->buf, &p))
        relax();
    return p;
}

static void *
echo_thread(void *arg)
{
    (void)arg;
    pin(1);
    for (int64_t i = 0; i < total; i++)
        put_spsc(&cb, get_spsc(&ca));
    return NULL;
}

static void *
count_thread(void *arg)
{
    (void)arg;
    pin(1);
    volatile uintptr_t sum = 0;
    for (int64_t i = 0; i < total; i++)
        sum += (uintptr_t)get_spsc(&ca);
    return NULL;
}

static void *
mpsc_thread(void *arg)
{
    (void)arg;
    pin(1);
    volatile uintptr_t sum = 0;
    void *p;
    for (int64_t i = 0; i < total; i++) {
        while (!ck_ring_dequeue_mpsc(&ca.ring, ca.buf, &p))
            relax();
        sum += (uintptr_t)p;
    }
    return NULL;
}

// Vyukov's linked MPSC queue with a malloc'ed node per message
typedef struct node {
    _Atomic(struct node *) next;
    int64_t x;
} node;
static _Alignas(64) _Atomic(node *) q_head;
static _Alignas(64) node *q_tail;

static void *
fifo_thread(void *arg)
{
    (void)arg;
    pin(1);
    volatile int64_t sum = 0;
    for (int64_t i = 0; i < total; i++) {
        node *next;
        while ((next = atomic_load_explicit(
                    &q_tail->next, memory_order_acquire)) == NULL)
            relax();
        sum += next->x;
        free(q_tail);
        q_tail = next;
    }
    return NULL;
}

static void
fifo_push(int64_t x)
{
    node *n = malloc(sizeof *n);
    n->x = x;
    atomic_store_explicit(&n->next, NULL, memory_order_relaxed);
    node *prev = atomic_exchange_explicit(&q_head, n, memory_order_acq_rel);
    atomic_store_explicit(&prev->next, n, memory_order_release);
}

static void
two_threads(const char *name)
{
    pthread_t t;
    ck_ring_init(&ca.ring, RING);
    ck_ring_init(&cb.ring, RING);
    pin(0);
    int64_t msgs;
    double t0;
    if (!strcmp(name, "pingpong")) {
        total = scaled(5000000);
        msgs = 2 * total;
        pthread_create(&t, NULL, echo_thread, NULL);
        t0 = now();
        for (int64_t i = 0; i < total; i++) {
            put_spsc(&ca, (void *)(i + 1));
            get_spsc(&cb);
        }
    } else if (!strcmp(name, "count")) {
        msgs = total = scaled(10000000);
        pthread_create(&t, NULL, count_thread, NULL);
        t0 = now();
        for (int64_t i = 0; i < total; i++)
            put_spsc(&ca, (void *)(i + 1));
    } else if (!strcmp(name, "n1")) {
        msgs = total = 64 * scaled(100000);
        pthread_create(&t, NULL, mpsc_thread, NULL);
        t0 = now();
        for (int64_t i = 0; i < total; i++)
            while (!ck_ring_enqueue_mpsc(&ca.ring, ca.buf, (void *)(i + 1)))
                relax();
    } else { // n1fifo
        msgs = total = 64 * scaled(100000);
        q_tail = calloc(1, sizeof *q_tail);
        q_head = q_tail;
        pthread_create(&t, NULL, fifo_thread, NULL);
        t0 = now();
        for (int64_t i = 0; i < total; i++)
            fifo_push(i + 1);
    }
    pthread_join(t, NULL);
    report(name, now() - t0, msgs);
}

// ---- one thread: dispatch from an array ring
// ----------------------------------------

typedef struct actor actor;
typedef struct {
    actor *to;
    actor *from;
    int64_t kind, x;
} message;
struct actor {
    void (*run)(actor *, const message *);
    actor *next;
    int64_t n, sum;
    uint64_t rng;
    int k;
};

enum { BIG_RING = 1 << 16 };
static message ring_buf[BIG_RING];
static uint32_t head, tail;
static int running;
static actor *peers;

static inline void
send(actor *to, actor *from, int64_t kind, int64_t x)
{
    ring_buf[tail++ & (BIG_RING - 1)] = (message){to, from, kind, x};
}

static void
loop(void)
{
    running = 1;
    while (running) {
        message m = ring_buf[head++ & (BIG_RING - 1)];
        m.to->run(m.to, &m);
    }
}

static int64_t left;
static void
finish_one(void)
{
    if (--left == 0)
        running = 0;
}

static void
run_echo(actor *a, const message *m)
{
    (void)a;
    send(m->from, a, 0, m->x);
}
static void
run_ping(actor *a, const message *m)
{
    if (m->x == 0)
        running = 0;
    else
        send(a->next, a, 0, m->x - 1);
}
static void
run_ring(actor *a, const message *m)
{
    if (m->x == 0)
        running = 0;
    else
        send(a->next, a, 0, m->x - 1);
}
static void
run_count(actor *a, const message *m)
{
    (void)m;
    if (--a->n == 0)
        finish_one();
}
static void
run_produce(actor *a, const message *m)
{
    (void)m;
    for (int i = 0; i < 1000 && a->n > 0; i++, a->n--)
        send(a->next, a, 0, a->n);
    if (a->n > 0)
        send(a, a, 0, 0);
}
static void
run_fan_out(actor *a, const message *m)
{
    (void)m;
    for (int i = 0; i < 1000 && a->n > 0; i++, a->n--) {
        send(&peers[a->k], a, 0, a->n);
        if (++a->k == 60)
            a->k = 0;
    }
    if (a->n > 0)
        send(a, a, 0, 0);
}
static void
run_big(actor *a, const message *m)
{
    if (m->kind == 1)
        send(m->from, a, 2, 0);
    else if (a->n-- > 0)
        send(&peers[rnd(&a->rng, 120)], a, 1, 0);
    else
        finish_one();
}
static void
run_ub(actor *a, const message *m)
{
    if (m->x > 0)
        send(&peers[rnd(&a->rng, 8)], a, 0, m->x - 1);
    else
        finish_one();
}
static void
run_shot(actor *a, const message *m)
{
    (void)m;
    free(a);
    finish_one();
}
static void
run_spawn(actor *a, const message *m)
{
    (void)m;
    for (int i = 0; i < 1000 && a->n > 0; i++, a->n--) {
        actor *s = calloc(1, sizeof *s);
        s->run = run_shot;
        send(s, a, 0, a->n);
    }
    if (a->n > 0)
        send(a, a, 0, 0);
}

static void
one_thread(const char *name)
{
    pin(0);
    int64_t msgs = 0;
    memset(ring_buf, 0, sizeof ring_buf);
    peers = calloc(128, sizeof *peers);
    for (int i = 0; i < 128; i++)
        peers[i].rng = (uint64_t)(i + 1) * 0x9E3779B97F4A7C15ull + 1;
    left = 1;
    if (!strcmp(name, "pingpong")) {
        int64_t n = scaled(5000000);
        peers[0].run = run_ping;
        peers[0].next = &peers[1];
        peers[1].run = run_echo;
        msgs = 2 * n;
        send(&peers[0], NULL, 0, n);
    } else if (!strcmp(name, "ring")) {
        msgs = scaled(5000000);
        for (int i = 0; i < 100; i++) {
            peers[i].run = run_ring;
            peers[i].next = &peers[(i + 1) % 100];
        }
        send(&peers[0], NULL, 0, msgs);
    } else if (!strcmp(name, "count") || !strcmp(name, "n1")) {
        int k = name[0] == 'n' ? 64 : 1;
        msgs = k == 64 ? 64 * scaled(100000) : scaled(10000000);
        peers[100].run = run_count;
        peers[100].n = msgs;
        for (int i = 0; i < k; i++) {
            peers[i].run = run_produce;
            peers[i].n = msgs / k;
            peers[i].next = &peers[100];
        }
        // at most 64 chunks of 1001 messages are in the ring: it holds 65536
        for (int i = 0; i < k; i++)
            send(&peers[i], NULL, 0, 0);
    } else if (!strcmp(name, "fjcreate")) {
        left = msgs = scaled(1000000);
        peers[0].run = run_spawn;
        peers[0].n = msgs;
        send(&peers[0], NULL, 0, 0);
    } else if (!strcmp(name, "fjthrput")) {
        int64_t n = scaled(200000);
        left = 60;
        msgs = 60 * n;
        for (int i = 0; i < 60; i++) {
            peers[i].run = run_count;
            peers[i].n = n;
        }
        peers[100].run = run_fan_out;
        peers[100].n = msgs;
        send(&peers[100], NULL, 0, 0);
    } else if (!strcmp(name, "big")) {
        int64_t n = scaled(20000);
        left = 120;
        msgs = 240 * n;
        for (int i = 0; i < 120; i++) {
            peers[i].run = run_big;
            peers[i].n = n;
        }
        for (int i = 0; i < 120; i++)
            send(&peers[i], NULL, 0, 0);
    } else if (!strcmp(name, "ubench")) {
        int64_t n = scaled(250000);
        left = 40;
        msgs = 40 * n;
        for (int i = 0; i < 8; i++)
            peers[i].run = run_ub;
        for (int j = 0; j < 40; j++)
            send(&peers[j % 8], NULL, 0, n - 1);
    } else {
        fprintf(stderr, "no such benchmark: %s\n", name);
        exit(2);
    }
    double t0 = now();
    loop();
    report(name, now() - t0, msgs);
}

int
main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: %s BENCH THREADS [SCALE]\n", argv[0]);
        return 2;
    }
    threads = atoi(argv[2]);
    if (argc > 3)
        scale = atof(argv[3]);
    if (threads == 2)
        two_threads(argv[1]);
    else
        one_thread(argv[1]);
    return 0;
}
