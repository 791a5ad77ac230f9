/* SPDX-License-Identifier: MIT */
#include "engine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#if defined(__SANITIZE_ADDRESS__)
#define FIBERS_ARE_WATCHED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FIBERS_ARE_WATCHED 1
#endif
#endif
#ifdef FIBERS_ARE_WATCHED
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#define BUFFER_MAX 16
#define STACK_BYTES ((size_t)256 * 1024)
#define LOCAL_MAX 512
#define NAMES_MAX 64
#define TRAIL_MAX 20000
#define DROPS_MAX 4
/* Steps that a buffered store, or a thread that others wait for, may take. */
#define STALE_AFTER 300
/* What a look at the clock costs, and a thread that was off its core. */
#define CLOCK_TICK_NS 50
#define CLOCK_GAP_NS 30000
/* So long a thread may be off its core while others run. */
#define SURPRISE_MOST_NS 20000000

enum state { ENDED, RUNNABLE, ASLEEP, JOINING, AWAITS_SLEEP, AWAITS_REST };

struct store {
    volatile void *at;
    size_t bytes;
    uint64_t value;
    uint64_t step;
};

struct thread {
    enum state state;
    const char *name;
    void (*run)(void *);
    void *user;

    /* ASLEEP */
    const volatile uint32_t *word;
    uint64_t deadline_ns;
    bool timed_out;
    /* JOINING */
    int joined;

    struct store buffer[BUFFER_MAX]; /* oldest first */
    int buffered;

    bool relaxed;       /* lets somebody else go first */
    uint64_t last_step; /* that it was chosen for */
    uint32_t streak;    /* steps in a row while others could run */
    int64_t priority;   /* pct */
    uint32_t laziness;  /* pct: a buffered store leaves once in so many steps */

    /* The fiber outlives the schedule, unless it was left in the middle. */
    char *stack;
    size_t stack_bytes;
    ucontext_t entry; /* of its first run */
    jmp_buf context;  /* of all later ones */
    bool is_entered;
    bool is_between;  /* runs: it waits at the end of run_fiber()'s loop */
    void *fake_stack; /* AddressSanitizer's */
    unsigned char local[LOCAL_MAX];
};

struct decision {
    uint16_t chosen;
    uint16_t count;
};

static struct {
    struct model_options options;
    struct model_result *result;
    struct thread threads[MODEL_THREADS_MAX];
    struct thread host; /* model_run()'s caller */
    struct thread *current;
    struct thread *previous;
    int count; /* of threads in this schedule */
    int alive; /* of them, not ended */
    uint64_t steps;
    uint64_t steps_alone; /* by the only thread there is: not interesting */
    uint64_t signature;
    uint64_t clock_ns;
    uint64_t random;
    int buffered; /* stores, of all threads */

    /* random: once in so many steps, 0 = never */
    uint32_t switches, flushes, surprises;
    /* pct */
    uint64_t drops[DROPS_MAX];
    int64_t lowest;
    uint32_t deviations; /* dfs: that are left in this schedule */

    void *local;
    size_t local_bytes;
    struct {
        const volatile void *at;
        const char *name;
    } names[NAMES_MAX];
    int name_count;
} engine;

/* dfs: the decisions of the schedule that is up, and those added by it. */
static struct {
    struct decision trail[TRAIL_MAX];
    uint32_t length;
    uint32_t next;
} search;

/* --- chance and search ---------------------------------------------------- */

static uint64_t
draw(void)
{
    uint64_t z = (engine.random += UINT64_C(0x9e3779b97f4a7c15));

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static uint32_t
draw_below(uint32_t count)
{
    return (uint32_t)(((draw() >> 32) * count) >> 32);
}

static bool
once_in(uint32_t steps)
{
    return steps != 0 && draw_below(steps) == 0;
}

static uint32_t
decide(uint32_t count)
{
    struct decision *decision;

    if (count <= 1) {
        return 0;
    }
    if (search.next == TRAIL_MAX) {
        model_fail(__FILE__, __LINE__, "the schedule has too many decisions");
    }
    decision = &search.trail[search.next];
    if (search.next == search.length) {
        decision->chosen = 0;
        decision->count = (uint16_t)count;
        search.length++;
    } else if (decision->count == 0) { /* from a written path */
        decision->count = (uint16_t)count;
    } else if (decision->count != count) {
        model_fail(__FILE__, __LINE__, "the scenario is not deterministic");
    }
    search.next++;
    return decision->chosen < count ? decision->chosen : 0;
}

/* The same, but all choices except 0 use up a deviation. */
static uint32_t
deviate(uint32_t count)
{
    uint32_t chosen = engine.deviations != 0 ? decide(count) : 0;

    engine.deviations -= chosen != 0;
    return chosen;
}

uint32_t
model_choose(uint32_t count)
{
    return engine.options.mode == MODEL_DFS ? decide(count) : draw_below(count);
}

void
model_search_begin(void)
{
    search.length = 0;
}

bool
model_search_next(void)
{
    while (search.length > 0) {
        struct decision *last = &search.trail[search.length - 1];

        if (last->chosen + 1 < last->count) {
            last->chosen++;
            return true;
        }
        search.length--;
    }
    return false;
}

void
model_search_write(char *path, size_t bytes)
{
    size_t used = 0;

    snprintf(path, bytes, "0:0");
    for (uint32_t i = 0; i < search.length && used < bytes; i++) {
        if (search.trail[i].chosen != 0) {
            used += (size_t)snprintf(path + used, bytes - used, "%s%u:%u",
                used != 0 ? "," : "", i, search.trail[i].chosen);
        }
    }
}

bool
model_search_read(const char *path)
{
    memset(&search, 0, sizeof search);
    for (;;) {
        unsigned index;
        unsigned chosen;
        int length;

        if (sscanf(path, "%u:%u%n", &index, &chosen, &length) != 2 ||
            index >= TRAIL_MAX || chosen > UINT16_MAX) {
            return false;
        }
        search.trail[index].chosen = (uint16_t)chosen;
        if (search.length < index + 1) {
            search.length = index + 1;
        }
        path += length;
        if (*path == '\0') {
            return true;
        }
        if (*path++ != ',') {
            return false;
        }
    }
}

/* --- traces --------------------------------------------------------------- */

void
model_name(const volatile void *at, const char *name)
{
    int i = 0;

    while (i < engine.name_count && engine.names[i].at != at) {
        i++;
    }
    if (i < NAMES_MAX) {
        engine.names[i].at = at;
        engine.names[i].name = name;
        if (i == engine.name_count) {
            engine.name_count++;
        }
    }
}

static const char *
name_of(const volatile void *at)
{
    static char text[32];

    for (int i = 0; i < engine.name_count; i++) {
        if (engine.names[i].at == at) {
            return engine.names[i].name;
        }
    }
    snprintf(text, sizeof text, "*%llx",
        (unsigned long long)((uintptr_t)at & 0xfffffff));
    return text;
}

/* Thread, step, and then the line that the caller completes. */
static void
trace_begin(const struct thread *thread, const char *where)
{
    const char *operation = where != NULL ? where : "";
    int length = (int)strcspn(operation, " ");
    const char *file = strrchr(operation, '/');

    printf("%6llu %-9s %-14.*s %-14s", (unsigned long long)engine.steps,
        thread->name, length, operation, file != NULL ? file + 1 : "");
}

static void __attribute__((format(printf, 3, 4)))
trace(const char *where, const volatile void *at, const char *format, ...)
{
    va_list args;

    if (!engine.options.trace) {
        return;
    }
    trace_begin(engine.current, where);
    printf(" %s ", name_of(at));
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
}

void
model_note(const char *format, ...)
{
    va_list args;

    if (!engine.options.trace) {
        return;
    }
    trace_begin(engine.current, "-");
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
}

#define HEX "%llx"
#define HEX_ARG(x) ((unsigned long long)(x))

/* --- fibers --------------------------------------------------------------- */

/* AddressSanitizer must know which stack is in use. */
static void
before_switch(struct thread *from, const struct thread *to)
{
#ifdef FIBERS_ARE_WATCHED
    __sanitizer_start_switch_fiber(
        &from->fake_stack, to->stack, to->stack_bytes);
#else
    (void)from;
    (void)to;
#endif
}

static void
after_switch(void)
{
#ifdef FIBERS_ARE_WATCHED
    const void *stack;
    size_t bytes;

    __sanitizer_finish_switch_fiber(
        engine.current->is_entered ? engine.current->fake_stack : NULL, &stack,
        &bytes);
    if (engine.previous == &engine.host) {
        engine.host.stack = (char *)(uintptr_t)stack;
        engine.host.stack_bytes = bytes;
    }
#endif
    engine.current->is_entered = true;
}

/*
 * Goes on in `to`; returns when somebody switches back. It jumps, because
 * swapcontext() makes two system calls.
 */
static void
switch_to(struct thread *to)
{
    struct thread *from = engine.current;

    if (to == from) {
        return;
    }
    memcpy(from->local, engine.local, engine.local_bytes);
    memcpy(engine.local, to->local, engine.local_bytes);
    engine.previous = from;
    engine.current = to;
    before_switch(from, to);
    if (_setjmp(from->context) == 0) {
        if (to->is_entered) {
            _longjmp(to->context, 1);
        }
        setcontext(&to->entry);
    }
    after_switch();
}

static void end_thread(struct thread *thread);

static void
run_fiber(void)
{
    after_switch();
    for (;;) {
        struct thread *self = engine.current;

        self->is_between = false;
        self->run(self->user);
        end_thread(self);
    }
}

static void
prepare_fiber(struct thread *thread)
{
    if (thread->stack == NULL) {
        thread->stack_bytes = STACK_BYTES;
        thread->stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
            MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
        if (thread->stack == MAP_FAILED ||
            mprotect(thread->stack, 4096, PROT_NONE) != 0) {
            perror("stack of a model thread");
            exit(2);
        }
    }
    if (thread->is_entered && thread->is_between) {
        return;
    }
#ifdef FIBERS_ARE_WATCHED
    __asan_unpoison_memory_region(thread->stack + 4096, STACK_BYTES - 4096);
#endif
    getcontext(&thread->entry);
    thread->entry.uc_stack.ss_sp = thread->stack;
    thread->entry.uc_stack.ss_size = STACK_BYTES;
    thread->entry.uc_link = NULL;
    makecontext(&thread->entry, run_fiber, 0);
    thread->is_entered = false;
}

/* --- the end of a schedule ------------------------------------------------ */

/* Leaves the current fiber in the middle of what it does, for good. */
static void __attribute__((noreturn)) give_up(enum model_verdict verdict)
{
    engine.result->verdict = verdict;
    engine.current->is_between = false;
    switch_to(&engine.host);
    abort();
}

void
model_fail(const char *file, int line, const char *format, ...)
{
    const char *name = strrchr(file, '/');
    char *text = engine.result->text;
    size_t bytes = sizeof engine.result->text;
    int used =
        snprintf(text, bytes, "%s:%d: %s: ", name != NULL ? name + 1 : file,
            line, engine.current->name);
    va_list args;

    va_start(args, format);
    vsnprintf(text + used, bytes - (size_t)used, format, args);
    va_end(args);
    give_up(MODEL_FAILED);
}

static void __attribute__((noreturn)) fail_deadlock(void)
{
    static const char *const does[] = {[ASLEEP] = "sleeps on",
        [JOINING] = "joins",
        [AWAITS_SLEEP] = "awaits sleep",
        [AWAITS_REST] = "awaits rest"};
    char *text = engine.result->text;
    size_t bytes = sizeof engine.result->text;
    size_t used = (size_t)snprintf(text, bytes, "deadlock:");

    for (int i = 0; i < engine.count && used < bytes; i++) {
        struct thread *thread = &engine.threads[i];

        if (thread->state != ENDED) {
            used += (size_t)snprintf(text + used, bytes - used, " %s %s %s;",
                thread->name, does[thread->state],
                thread->state == ASLEEP    ? name_of(thread->word)
                : thread->state == JOINING ? engine.threads[thread->joined].name
                                           : "");
        }
    }
    give_up(MODEL_DEADLOCK);
}

static void
count_step(uint64_t *steps, uint64_t limit)
{
    if (++*steps > limit) {
        snprintf(engine.result->text, sizeof engine.result->text,
            "no end after %llu steps", (unsigned long long)limit);
        give_up(MODEL_LIVELOCK);
    }
}

static void
sign(uint64_t what)
{
    engine.signature = (engine.signature ^ what) * UINT64_C(0x100000001b3);
}

/* --- memory and store buffers --------------------------------------------- */

static uint64_t
read_memory(const volatile void *at, size_t bytes)
{
    switch (bytes) {
    case 1:
        return *(const volatile uint8_t *)at;
    case 2:
        return *(const volatile uint16_t *)at;
    case 4:
        return *(const volatile uint32_t *)at;
    default:
        return *(const volatile uint64_t *)at;
    }
}

static void
write_memory(volatile void *at, size_t bytes, uint64_t value)
{
    switch (bytes) {
    case 1:
        *(volatile uint8_t *)at = (uint8_t)value;
        break;
    case 2:
        *(volatile uint16_t *)at = (uint16_t)value;
        break;
    case 4:
        *(volatile uint32_t *)at = (uint32_t)value;
        break;
    default:
        *(volatile uint64_t *)at = value;
        break;
    }
}

static uint64_t
cut(uint64_t value, size_t bytes)
{
    return bytes == 8 ? value : value & ((UINT64_C(1) << (8 * bytes)) - 1);
}

static void
flush_oldest(struct thread *thread)
{
    struct store *store = &thread->buffer[0];

    write_memory(store->at, store->bytes, store->value);
    if (engine.options.trace) {
        trace_begin(thread, "(seen)");
        printf(" %s " HEX "\n", name_of(store->at), HEX_ARG(store->value));
    }
    thread->buffered--;
    engine.buffered--;
    memmove(store, store + 1, (size_t)thread->buffered * sizeof *store);
}

static void
drain(struct thread *thread)
{
    while (thread->buffered != 0) {
        flush_oldest(thread);
    }
}

/* What this thread sees: the newest of its own stores, or memory. */
static uint64_t
read_word(const volatile void *at, size_t bytes)
{
    const struct thread *self = engine.current;
    const volatile char *begin = at;

    for (int i = self->buffered - 1; i >= 0; i--) {
        const struct store *store = &self->buffer[i];
        const volatile char *stored = store->at;

        if (stored == begin && store->bytes == bytes) {
            return store->value;
        }
        if (stored < begin + bytes && begin < stored + store->bytes) {
            model_fail(__FILE__, __LINE__,
                "a store in the buffer is read with another width");
        }
    }
    return read_memory(at, bytes);
}

/* --- who goes next -------------------------------------------------------- */

static struct thread *
nth_with_stores(uint32_t n)
{
    for (int i = 0; i < engine.count; i++) {
        if (engine.threads[i].buffered != 0 && n-- == 0) {
            return &engine.threads[i];
        }
    }
    return NULL;
}

static uint32_t
threads_with_stores(void)
{
    uint32_t count = 0;

    for (int i = 0; i < engine.count; i++) {
        count += engine.threads[i].buffered != 0;
    }
    return count;
}

static struct thread *
wants_to_flush_pct(void)
{
    for (int i = 0; i < engine.count; i++) {
        struct thread *thread = &engine.threads[i];

        if (thread->buffered != 0 && once_in(thread->laziness)) {
            return thread;
        }
    }
    return NULL;
}

/* No store waits for ever. */
static struct thread *
with_stale_store(void)
{
    for (int i = 0; i < engine.count; i++) {
        struct thread *thread = &engine.threads[i];

        if (thread->buffered != 0 &&
            engine.steps - thread->buffer[0].step > STALE_AFTER) {
            return thread;
        }
    }
    return NULL;
}

/* Whose oldest store becomes visible now, or NULL. */
static struct thread *
wants_to_flush(void)
{
    struct thread *thread = with_stale_store();

    if (thread != NULL) {
        return thread;
    }
    switch (engine.options.mode) {
    case MODEL_DFS: /* when threads switch: see flush_some() */
        return NULL;
    case MODEL_PCT:
        thread = wants_to_flush_pct();
        break;
    case MODEL_RANDOM:
        if (once_in(engine.flushes)) {
            thread = nth_with_stores(draw_below(threads_with_stores()));
        }
        break;
    }
    /* The current thread waits for something: perhaps for a store. */
    if (thread == NULL && engine.current->relaxed && once_in(2)) {
        thread = nth_with_stores(draw_below(threads_with_stores()));
    }
    return thread;
}

static bool
flush_something(void)
{
    struct thread *thread = engine.buffered != 0 ? wants_to_flush() : NULL;

    if (thread == NULL) {
        return false;
    }
    sign(UINT64_C(0x100) + (uint64_t)(thread - engine.threads));
    flush_oldest(thread);
    return true;
}

static void
wake_late(struct thread *thread)
{
    if (thread->deadline_ns != MODEL_FOREVER) {
        thread->timed_out = true;
        if (engine.clock_ns < thread->deadline_ns) {
            engine.clock_ns = thread->deadline_ns;
        }
    }
    thread->state = RUNNABLE;
    if (engine.options.trace) {
        trace_begin(thread, thread->timed_out ? "(time out)" : "(woken early)");
        putchar('\n');
    }
    sign(UINT64_C(0x200) + (uint64_t)(thread - engine.threads));
}

/* A deadline passes, or a sleeper wakes for no reason, though others run. */
static bool
surprise(void)
{
    struct thread *asleep[MODEL_THREADS_MAX];
    uint32_t count = 0;
    uint32_t chosen;

    if (engine.options.mode == MODEL_DFS ? engine.deviations == 0
                                         : !once_in(engine.surprises)) {
        return false;
    }
    for (int i = 0; i < engine.count; i++) {
        struct thread *thread = &engine.threads[i];

        if (thread->state == ASLEEP &&
            (thread->deadline_ns == MODEL_FOREVER ||
                thread->deadline_ns < engine.clock_ns + SURPRISE_MOST_NS)) {
            asleep[count++] = thread;
        }
    }
    if (count == 0) {
        return false;
    }
    if (engine.options.mode == MODEL_DFS) {
        chosen = deviate(count + 1);
        if (chosen == 0) {
            return false;
        }
        chosen--;
    } else {
        chosen = draw_below(count);
    }
    wake_late(asleep[chosen]);
    return true;
}

/* Nobody can run: who waited for that? */
static void
wake_patient(void)
{
    struct thread *found = NULL;

    for (int i = 0; i < engine.count && found == NULL; i++) {
        if (engine.threads[i].state == AWAITS_SLEEP) {
            found = &engine.threads[i];
        }
    }
    if (found != NULL) {
        found->state = RUNNABLE;
        return;
    }
    for (int i = 0; i < engine.count; i++) {
        struct thread *thread = &engine.threads[i];

        if (thread->state == ASLEEP && thread->deadline_ns != MODEL_FOREVER &&
            (found == NULL || thread->deadline_ns < found->deadline_ns)) {
            found = thread;
        }
    }
    if (found != NULL) {
        wake_late(found);
        return;
    }
    for (int i = 0; i < engine.count && found == NULL; i++) {
        if (engine.threads[i].state == AWAITS_REST) {
            found = &engine.threads[i];
        }
    }
    if (found == NULL) {
        fail_deadlock();
    }
    found->state = RUNNABLE;
}

static struct thread *
pick_pct(struct thread **able, uint32_t count, bool may_stay)
{
    struct thread *self = engine.current;
    struct thread *best;

    for (int i = 0; i < DROPS_MAX; i++) {
        if (engine.steps >= engine.drops[i]) {
            engine.drops[i] = UINT64_MAX;
            may_stay = false;
        }
    }
    if (!may_stay && self->state == RUNNABLE) {
        self->priority = --engine.lowest;
    }
    best = able[0];
    for (uint32_t i = 1; i < count; i++) {
        if (able[i]->priority > best->priority) {
            best = able[i];
        }
    }
    return best;
}

/*
 * `others` can run, and do not include the current thread. By default it stays,
 * or whoever has waited longest comes next.
 */
static struct thread *
pick_dfs(struct thread **others, uint32_t count, bool may_stay)
{
    uint32_t oldest = 0;
    uint32_t chosen;

    if (may_stay) {
        chosen = deviate(count + 1);
        return chosen == 0 ? engine.current : others[chosen - 1];
    }
    for (uint32_t i = 1; i < count; i++) {
        if (others[i]->last_step < others[oldest]->last_step) {
            oldest = i;
        }
    }
    return others[(oldest + deviate(count)) % count];
}

/* dfs: nobody looks at stores until threads switch; then they leave or not. */
static void
flush_some(void)
{
    for (int i = 0; i < engine.count; i++) {
        if (engine.threads[i].buffered != 0 && decide(2) != 0) {
            drain(&engine.threads[i]);
        }
    }
}

static struct thread *
pick(struct thread **able, uint32_t count)
{
    struct thread *self = engine.current;
    bool may_stay =
        self->state == RUNNABLE && !self->relaxed && self->streak < STALE_AFTER;
    struct thread *others[MODEL_THREADS_MAX];
    uint32_t other_count = 0;

    for (uint32_t i = 0; i < count; i++) {
        if (able[i] != self) {
            others[other_count++] = able[i];
        }
    }
    if (other_count == 0) {
        return self;
    }
    switch (engine.options.mode) {
    case MODEL_DFS:
        return pick_dfs(others, other_count, may_stay);
    case MODEL_PCT:
        return pick_pct(able, count, may_stay);
    case MODEL_RANDOM:
        break;
    }
    return may_stay && !once_in(engine.switches)
               ? self
               : others[draw_below(other_count)];
}

static uint32_t
find_able(struct thread **able)
{
    uint32_t count = 0;

    for (int i = 0; i < engine.count; i++) {
        if (engine.threads[i].state == RUNNABLE) {
            able[count++] = &engine.threads[i];
        }
    }
    return count;
}

/* Who goes on. Stores leave and sleepers wake on the way. */
static struct thread *
next_thread(void)
{
    struct thread *able[MODEL_THREADS_MAX];
    struct thread *next;
    uint32_t count = 0;

    while (count == 0) {
        count_step(&engine.steps, engine.options.max_steps);
        if (flush_something() || surprise()) {
            continue;
        }
        count = find_able(able);
        if (count == 0) {
            wake_patient();
        }
    }
    next = pick(able, count);
    if (engine.options.mode == MODEL_DFS && next != engine.current) {
        flush_some();
    }
    engine.current->relaxed = false;
    next->streak = next == engine.current && count > 1 ? next->streak + 1 : 0;
    next->last_step = engine.steps;
    return next;
}

static bool
is_alone(void)
{
    return engine.alive == 1;
}

/* Before an operation. */
static void
step(const char *where)
{
    if (is_alone()) {
        count_step(&engine.steps_alone, 1000000);
        return;
    }
    switch_to(next_thread());
    sign(((uint64_t)(engine.current - engine.threads) << 8) +
         (unsigned char)where[0]);
}

/* The current thread cannot go on until its state is RUNNABLE again. */
static void
block(enum state state)
{
    drain(engine.current);
    engine.current->state = state;
    switch_to(next_thread());
}

static void
end_thread(struct thread *thread)
{
    step("end");
    drain(thread);
    thread->state = ENDED;
    engine.alive--;
    for (int i = 0; i < engine.count; i++) {
        struct thread *other = &engine.threads[i];

        if (other->state == JOINING &&
            engine.threads[other->joined].state == ENDED) {
            other->state = RUNNABLE;
        }
        if (engine.alive == 1) {
            drain(other);
        }
    }
    thread->is_between = true;
    switch_to(engine.alive == 0 ? &engine.host : next_thread());
}

/* --- operations ----------------------------------------------------------- */

void
model_step(const char *where)
{
    step(where);
}

void
model_relax(const char *where)
{
    engine.current->relaxed = true;
    step(where);
    engine.current->relaxed = false;
}

uint64_t
model_load(const volatile void *at, size_t bytes, const char *where)
{
    uint64_t value;

    step(where);
    value = read_word(at, bytes);
    trace(where, at, "-> " HEX, HEX_ARG(value));
    return value;
}

void
model_store(volatile void *at, size_t bytes, uint64_t value, bool drains,
    const char *where)
{
    struct thread *self = engine.current;
    bool is_delayed = false;

    step(where);
    value = cut(value, bytes);
    if (drains || is_alone() || !engine.options.buffers) {
        drain(self);
    } else if (engine.options.mode != MODEL_DFS || self->buffered != 0) {
        is_delayed = true;
    } else {
        is_delayed = deviate(2) != 0;
    }
    trace(where, at, "%s " HEX, is_delayed ? "<~" : "<-", HEX_ARG(value));
    if (!is_delayed) {
        write_memory(at, bytes, value);
        return;
    }
    if (self->buffered == BUFFER_MAX) {
        flush_oldest(self);
    }
    self->buffer[self->buffered++] = (struct store){
        .at = at, .bytes = bytes, .value = value, .step = engine.steps};
    engine.buffered++;
}

static uint64_t
modify(volatile void *at, size_t bytes, const char *where)
{
    step(where);
    drain(engine.current);
    return read_memory(at, bytes);
}

static uint64_t
modified(volatile void *at, size_t bytes, uint64_t old, uint64_t new,
    const char *where)
{
    new = cut(new, bytes);
    write_memory(at, bytes, new);
    trace(where, at, "-> " HEX " <- " HEX, HEX_ARG(old), HEX_ARG(new));
    return old;
}

bool
model_cas(volatile void *at, size_t bytes, volatile void *expected,
    uint64_t value, const char *where)
{
    uint64_t found = modify(at, bytes, where);
    uint64_t wanted = read_memory(expected, bytes);

    if (found == wanted) {
        modified(at, bytes, found, value, where);
        return true;
    }
    trace(where, at, "-> " HEX ", not " HEX, HEX_ARG(found), HEX_ARG(wanted));
    write_memory(expected, bytes, found);
    return false;
}

uint64_t
model_swap(volatile void *at, size_t bytes, uint64_t value, const char *where)
{
    return modified(at, bytes, modify(at, bytes, where), value, where);
}

uint64_t
model_add(volatile void *at, size_t bytes, uint64_t value, const char *where)
{
    uint64_t old = modify(at, bytes, where);

    return modified(at, bytes, old, old + value, where);
}

uint64_t
model_and(volatile void *at, size_t bytes, uint64_t value, const char *where)
{
    uint64_t old = modify(at, bytes, where);

    return modified(at, bytes, old, old & value, where);
}

uint64_t
model_or(volatile void *at, size_t bytes, uint64_t value, const char *where)
{
    uint64_t old = modify(at, bytes, where);

    return modified(at, bytes, old, old | value, where);
}

bool
model_futex_wait(const volatile uint32_t *word, uint32_t value,
    uint64_t deadline_ns, const char *where)
{
    struct thread *self = engine.current;
    uint32_t found;

    step(where);
    drain(self);
    found = *word;
    trace(where, word, "-> %x%s", found, found == value ? ", sleeps" : "");
    if (found != value) {
        return true;
    }
    self->word = word;
    self->deadline_ns = deadline_ns;
    self->timed_out = false;
    block(ASLEEP);
    return !self->timed_out;
}

/* One of those that sleep on `word`, or NULL. */
static struct thread *
choose_sleeper(const volatile uint32_t *word)
{
    struct thread *asleep[MODEL_THREADS_MAX];
    uint32_t count = 0;

    for (int i = 0; i < engine.count; i++) {
        struct thread *thread = &engine.threads[i];

        if (thread->state == ASLEEP && thread->word == word) {
            asleep[count++] = thread;
        }
    }
    return count != 0 ? asleep[model_choose(count)] : NULL;
}

uint32_t
model_futex_wake(
    const volatile uint32_t *word, uint32_t count, const char *where)
{
    struct thread *sleeper;
    uint32_t woken = 0;

    step(where);
    drain(engine.current);
    while (woken < count && (sleeper = choose_sleeper(word)) != NULL) {
        sleeper->state = RUNNABLE;
        woken++;
    }
    trace(where, word, "wakes %u", woken);
    return woken;
}

/* --- threads and time ----------------------------------------------------- */

int
model_spawn(const char *name, void (*run)(void *), void *user)
{
    static const uint32_t laziness[] = {1, 4, 30, 0};
    struct thread *thread = &engine.threads[engine.count];

    if (engine.count == MODEL_THREADS_MAX) {
        model_fail(__FILE__, __LINE__, "too many threads");
    }
    prepare_fiber(thread);
    thread->name = name;
    thread->run = run;
    thread->user = user;
    thread->state = RUNNABLE;
    thread->buffered = 0;
    thread->relaxed = false;
    thread->streak = 0;
    thread->last_step = engine.steps;
    thread->priority = (int64_t)draw_below(1000000);
    thread->laziness = laziness[draw_below(4)];
    memset(thread->local, 0, sizeof thread->local);
    engine.count++;
    engine.alive++;
    return engine.count - 1;
}

void
model_join(int thread)
{
    step("join");
    while (engine.threads[thread].state != ENDED) {
        engine.current->joined = thread;
        block(JOINING);
    }
}

void
model_await_sleep(void)
{
    step("await_sleep");
    block(AWAITS_SLEEP);
}

void
model_await_rest(void)
{
    step("await_rest");
    block(AWAITS_REST);
}

uint64_t
model_clock_ns(void)
{
    bool has_gap;

    if (engine.options.mode != MODEL_DFS) {
        has_gap = once_in(16);
    } else {
        has_gap = deviate(2) != 0;
    }
    engine.clock_ns += has_gap ? CLOCK_GAP_NS : CLOCK_TICK_NS;
    return engine.clock_ns;
}

void
model_thread_local(void *at, size_t bytes)
{
    if (bytes > LOCAL_MAX) {
        fprintf(stderr, "thread-local memory of %zu bytes\n", bytes);
        exit(2);
    }
    engine.local = at;
    engine.local_bytes = bytes;
}

uint64_t
model_steps(void)
{
    return engine.steps;
}

static void
run_first(void *user)
{
    void (*const *run)(void) = user;

    (*run)();
}

void
model_run(const struct model_options *options, void (*run)(void),
    struct model_result *result)
{
    static const uint32_t switches[] = {2, 4, 8, 24};
    static const uint32_t flushes[] = {1, 2, 8, 60};
    static const uint32_t surprises[] = {0, 0, 0, 60, 300};
    static unsigned char no_local[1];

    if (engine.local == NULL) {
        engine.local = no_local;
    }
    engine.options = *options;
    engine.result = result;
    memset(result, 0, sizeof *result);
    engine.count = engine.alive = engine.buffered = 0;
    engine.steps = engine.steps_alone = 0;
    engine.signature = UINT64_C(0xcbf29ce484222325);
    engine.clock_ns = UINT64_C(1000000000);
    engine.random = options->seed;
    engine.lowest = 0;
    engine.deviations = options->deviations;
    engine.switches = switches[draw_below(4)];
    engine.flushes = flushes[draw_below(4)];
    engine.surprises = surprises[draw_below(5)];
    for (int i = 0; i < DROPS_MAX; i++) {
        engine.drops[i] =
            once_in(3) ? UINT64_MAX : draw_below(options->horizon + 1);
    }
    search.next = 0;
    engine.host.name = "host";
    engine.host.is_entered = true;
    engine.current = &engine.host;
    model_spawn("main", run_first, &run);
    switch_to(&engine.threads[0]);
    result->steps = engine.steps;
    result->signature = engine.signature;
}
