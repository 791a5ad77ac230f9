/* SPDX-License-Identifier: MIT */

/*
 * The operating system of a model. The sources of lib/os are the real ones: the
 * linker (--wrap) gives them these calls instead of libc's, and those of
 * os_memory.c. Only lib/os/thread.h is implemented here.
 */

#include "os.h"

#include "engine.h"
#include "os/thread.h"

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <stdarg.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define FIRST_FD 1000
#define EVENTS_MAX 8

/*
 * An event descriptor has tokens, a timer a time, a set has members. Pollers
 * sleep on the number of changes.
 */
struct event {
    uint32_t tokens;
    uint32_t changes;
    uint64_t due_ns;  /* MODEL_FOREVER: not for a time */
    struct event *in; /* the set whose member it is */
    bool is_open;
};
static struct event events[EVENTS_MAX];

long __wrap_syscall(long number, ...);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_eventfd(unsigned initial, int flags);
int __wrap_timerfd_create(int clock, int flags);
int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *when,
    struct itimerspec *before);
int __wrap_epoll_create1(int flags);
int __wrap_epoll_ctl(
    int fd, int operation, int member, struct epoll_event *event);
ssize_t __wrap_read(int fd, void *to, size_t bytes);
ssize_t __wrap_write(int fd, const void *from, size_t bytes);
int __wrap_close(int fd);
ssize_t __real_read(int fd, void *to, size_t bytes);
ssize_t __real_write(int fd, const void *from, size_t bytes);
int __real_close(int fd);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms);

static uint64_t
deadline_of(const struct timespec *timeout)
{
    return timeout == NULL ? MODEL_FOREVER
                           : (uint64_t)timeout->tv_sec * UINT64_C(1000000000) +
                                 (uint64_t)timeout->tv_nsec;
}

long
__wrap_syscall(long number, ...)
{
    const uint32_t *word;
    const struct timespec *timeout;
    uint32_t value;
    va_list args;
    int operation;

    MODEL_ASSERT(number == SYS_futex);
    va_start(args, number);
    word = va_arg(args, const uint32_t *);
    operation = va_arg(args, int);
    value = va_arg(args, uint32_t);
    timeout = va_arg(args, const struct timespec *);
    va_end(args);
    if (operation == FUTEX_WAKE_PRIVATE) {
        return model_futex_wake(word, value, MODEL_AT("futex_wake"));
    }
    MODEL_ASSERT(operation == FUTEX_WAIT_BITSET_PRIVATE);
    if (model_futex_wait(
            word, value, deadline_of(timeout), MODEL_AT("futex_wait"))) {
        return 0;
    }
    errno = ETIMEDOUT;
    return -1;
}

int
__wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
    uint64_t now_ns = model_clock_ns();

    (void)clock;
    now->tv_sec = (time_t)(now_ns / UINT64_C(1000000000));
    now->tv_nsec = (long)(now_ns % UINT64_C(1000000000));
    return 0;
}

/* --- event descriptors ---------------------------------------------------- */

/* Others are the real system's. */
static bool
is_event(int fd)
{
    return fd >= FIRST_FD && fd < FIRST_FD + EVENTS_MAX;
}

static struct event *
event_of(int fd)
{
    MODEL_CHECK(is_event(fd) && events[fd - FIRST_FD].is_open,
        "descriptor %d is not open", fd);
    return &events[fd - FIRST_FD];
}

static int
open_event(const char *name)
{
    for (int i = 0; i < EVENTS_MAX; i++) {
        if (!events[i].is_open) {
            events[i] =
                (struct event){.due_ns = MODEL_FOREVER, .is_open = true};
            model_name(&events[i].tokens, name);
            return FIRST_FD + i;
        }
    }
    errno = EMFILE;
    return -1;
}

/* Whoever polls it, or the set that it is in, looks again. */
static void
tell_change(struct event *event)
{
    for (; event != NULL; event = event->in) {
        model_add(
            &event->changes, sizeof event->changes, 1, MODEL_AT("changes"));
        model_futex_wake(&event->changes, UINT32_MAX, MODEL_AT("poll_wakes"));
    }
}

int
__wrap_eventfd(unsigned initial, int flags)
{
    MODEL_ASSERT(initial == 0 && (flags & EFD_NONBLOCK) != 0);
    return open_event("eventfd");
}

int
__wrap_timerfd_create(int clock, int flags)
{
    MODEL_ASSERT(clock == CLOCK_MONOTONIC && (flags & TFD_NONBLOCK) != 0);
    return open_event("timerfd");
}

int
__wrap_timerfd_settime(
    int fd, int flags, const struct itimerspec *when, struct itimerspec *before)
{
    struct event *event = event_of(fd);
    uint64_t due_ns = deadline_of(&when->it_value);

    MODEL_ASSERT(flags == TFD_TIMER_ABSTIME && before == NULL);
    model_step(MODEL_AT("timerfd_settime"));
    event->due_ns = due_ns != 0 ? due_ns : MODEL_FOREVER;
    tell_change(event);
    return 0;
}

int
__wrap_epoll_create1(int flags)
{
    (void)flags;
    return open_event("epoll");
}

int
__wrap_epoll_ctl(int fd, int operation, int member, struct epoll_event *event)
{
    MODEL_ASSERT(operation == EPOLL_CTL_ADD && event->events == EPOLLIN);
    event_of(member)->in = event_of(fd);
    return 0;
}

ssize_t
__wrap_read(int fd, void *to, size_t bytes)
{
    uint64_t tokens = model_swap(
        &event_of(fd)->tokens, sizeof(uint32_t), 0, MODEL_AT("read_tokens"));

    MODEL_ASSERT(bytes == sizeof tokens);
    if (tokens == 0) {
        errno = EAGAIN;
        return -1;
    }
    memcpy(to, &tokens, sizeof tokens);
    return sizeof tokens;
}

ssize_t
__wrap_write(int fd, const void *from, size_t bytes)
{
    struct event *event;
    uint64_t more;

    if (!is_event(fd)) {
        return __real_write(fd, from, bytes);
    }
    event = event_of(fd);
    MODEL_ASSERT(bytes == sizeof more);
    memcpy(&more, from, sizeof more);
    model_add(
        &event->tokens, sizeof event->tokens, more, MODEL_AT("write_tokens"));
    tell_change(event);
    return sizeof more;
}

int
__wrap_close(int fd)
{
    if (!is_event(fd)) {
        return __real_close(fd);
    }
    *event_of(fd) = (struct event){0};
    return 0;
}

/* A time that has come is seen; else it is the next one in *due_ns. */
static bool
is_ready(const struct event *event, uint64_t *due_ns)
{
    bool ready = event->tokens != 0 || event->due_ns <= model_clock_ns();

    if (event->due_ns < *due_ns) {
        *due_ns = event->due_ns;
    }
    for (int i = 0; i < EVENTS_MAX; i++) {
        ready = ready || (events[i].is_open && events[i].in == event &&
                             is_ready(&events[i], due_ns));
    }
    return ready;
}

/* Of one descriptor. */
int
__wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
    struct event *event = event_of(fds->fd);
    uint64_t deadline_ns = MODEL_FOREVER;

    MODEL_ASSERT(count == 1 && fds->events == POLLIN);
    if (timeout_ms >= 0) {
        deadline_ns =
            model_clock_ns() + (uint64_t)timeout_ms * UINT64_C(1000000);
    }
    for (;;) {
        uint32_t seen = (uint32_t)model_load(
            &event->changes, sizeof event->changes, MODEL_AT("poll"));
        uint64_t until_ns = deadline_ns;

        if (is_ready(event, &until_ns)) {
            fds->revents = POLLIN;
            return 1;
        }
        if (!model_futex_wait(
                &event->changes, seen, until_ns, MODEL_AT("poll_sleeps")) &&
            model_clock_ns() >= deadline_ns) {
            return 0;
        }
    }
}

void
model_poll(int fd)
{
    struct pollfd one = {.fd = fd, .events = POLLIN};

    __wrap_poll(&one, 1, -1);
}

bool
model_is_readable(int fd)
{
    uint64_t due_ns = MODEL_FOREVER;

    return is_ready(event_of(fd), &due_ns);
}

/* --- lib/os/thread.h ------------------------------------------------------ */

static struct {
    void *(*run)(void *);
    void *user;
} workers[MODEL_THREADS_MAX];
static uint32_t worker_count;

static void
run_worker(void *user)
{
    uint32_t index = (uint32_t)(uintptr_t)user;

    workers[index].run(workers[index].user);
}

bool
trp_thread_start(pthread_t *thread, const char *name, size_t stack_bytes,
    void *(*run)(void *), void *user)
{
    static const char *const names[MODEL_THREADS_MAX] = {
        "w0", "w1", "w2", "w3", "w4", "w5", "w6", "w7"};
    uint32_t index = worker_count++;

    (void)name;
    (void)stack_bytes;
    workers[index].run = run;
    workers[index].user = user;
    *thread = (pthread_t)model_spawn(
        names[index], run_worker, (void *)(uintptr_t)index);
    return true;
}

void
trp_thread_join(pthread_t thread)
{
    model_join((int)thread);
}

void
trp_thread_yield(void)
{
    model_relax(MODEL_AT("yield"));
}

/* --- the start of a schedule ---------------------------------------------- */

void
model_os_begin(void)
{
    memset(events, 0, sizeof events);
    worker_count = 0;
}
