/* SPDX-License-Identifier: MIT */
#include "buffer.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    CAPACITY_FIRST = 512,
    CAPACITY_KEPT = 16 * 1024 /* what an idle connection may hold on to */
};

/* Makes room for `bytes` more. */
static bool
reserve(struct buffer *buffer, size_t bytes)
{
    size_t capacity = buffer->capacity != 0 ? buffer->capacity : CAPACITY_FIRST;
    char *moved;

    while (capacity - buffer->length < bytes) {
        if (capacity > SIZE_MAX / 2) {
            return false;
        }
        capacity *= 2;
    }
    moved = realloc(buffer->data, capacity);
    if (moved == NULL) {
        return false;
    }
    buffer->data = moved;
    buffer->capacity = capacity;
    return true;
}

bool
buffer_append(struct buffer *buffer, const void *data, size_t bytes)
{
    if (bytes == 0) {
        return true;
    }
    if (bytes > buffer->capacity - buffer->length && !reserve(buffer, bytes)) {
        return false;
    }
    memcpy(buffer->data + buffer->length, data, bytes);
    buffer->length += bytes;
    return true;
}

void
buffer_consume(struct buffer *buffer, size_t bytes)
{
    buffer->length -= bytes;
    if (bytes != 0 && buffer->length != 0) {
        memmove(buffer->data, buffer->data + bytes, buffer->length);
    }
}

void
buffer_clear(struct buffer *buffer)
{
    buffer->length = 0;
    if (buffer->capacity > CAPACITY_KEPT) {
        buffer_free(buffer);
    }
}

void
buffer_free(struct buffer *buffer)
{
    free(buffer->data);
    *buffer = (struct buffer){0};
}
