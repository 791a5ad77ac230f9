/* SPDX-License-Identifier: MIT */
#ifndef TRP_OS_THREAD_H
#define TRP_OS_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * Starts a thread with every signal blocked and the given name (cut to 15
 * characters); the caller's own mask is as before. False: errno says why.
 */
bool trp_thread_start(pthread_t *thread, const char *name, size_t stack_bytes,
    void *(*run)(void *), void *user);
void trp_thread_join(pthread_t thread);
/* Lets another runnable thread of this machine go first. */
void trp_thread_yield(void);

#endif /* TRP_OS_THREAD_H */
