/* SPDX-License-Identifier: MIT */
#ifndef MODEL_OS_H
#define MODEL_OS_H

#include <stdbool.h>

/* At the start of a schedule: no thread was started, no descriptor is open. */
void model_os_begin(void);

/* Sleeps until the descriptor is readable. */
void model_poll(int fd);
/* A look from outside: not a step. */
bool model_is_readable(int fd);

#endif /* MODEL_OS_H */
