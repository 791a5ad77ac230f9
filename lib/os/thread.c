/* SPDX-License-Identifier: MIT */
#include "os/thread.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>

bool
trp_thread_start(pthread_t *thread, const char *name, size_t stack_bytes,
    void *(*run)(void *), void *user)
{
    pthread_attr_t attributes;
    sigset_t all, before;
    char text[16];
    int error;

    if (stack_bytes < (size_t)PTHREAD_STACK_MIN) {
        stack_bytes = (size_t)PTHREAD_STACK_MIN;
    }
    error = pthread_attr_init(&attributes);
    if (error == 0) {
        sigfillset(&all);
        error = pthread_attr_setstacksize(
            &attributes, (stack_bytes + 4095) & ~(size_t)4095);
        pthread_sigmask(SIG_BLOCK, &all, &before);
        if (error == 0) {
            error = pthread_create(thread, &attributes, run, user);
        }
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        pthread_attr_destroy(&attributes);
    }
    if (error != 0) {
        errno = error;
        return false;
    }
    snprintf(text, sizeof text, "%s", name);
    pthread_setname_np(*thread, text);
    return true;
}

void
trp_thread_join(pthread_t thread)
{
    pthread_join(thread, NULL);
}

void
trp_thread_yield(void)
{
    sched_yield();
}
