/* SPDX-License-Identifier: MIT */
#ifndef HTTP_BUFFER_H
#define HTTP_BUFFER_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes that grow at the end. All zero is an empty buffer. */
struct buffer {
    char *data;
    size_t length;
    size_t capacity;
};

/* False when out of memory; the buffer is then as before. */
bool buffer_append(struct buffer *buffer, const void *data, size_t bytes);
/* Takes `bytes` off the front. */
void buffer_consume(struct buffer *buffer, size_t bytes);
/* Empties it for the next use; gives large memory back. */
void buffer_clear(struct buffer *buffer);
void buffer_free(struct buffer *buffer);

#endif /* HTTP_BUFFER_H */
