/* SPDX-License-Identifier: MIT */
#ifndef HTTP_RESPONSE_H
#define HTTP_RESPONSE_H

#include "buffer.h"

#include <stdint.h>

enum { RESPONSE_SMALL = 96 };

/* What is answered to one request; its answer, once that is there. */
struct response {
    struct response *next;
    uint32_t serial;
    uint16_t status;   /* 0 = an actor still works on it */
    bool head_only;    /* HEAD: the body's length but not the body */
    bool http10;       /* keep-alive has to be said */
    bool json;         /* else plain text */
    const char *allow; /* static, or NULL */
    char *text;        /* malloc'ed; NULL = `small` */
    size_t length;
    char small[RESPONSE_SMALL];
};

/* NULL when out of memory. */
struct response *response_new(uint32_t serial);
void response_free(struct response *response);

/* An answer of the server itself: "404 Not Found", and why if that is known. */
void response_refuse(
    struct response *response, uint16_t status, const char *reason);
/* `length` is at most RESPONSE_SMALL. */
void response_set(struct response *response, uint16_t status, const char *text,
    size_t length);
/* `text` is malloc'ed and the response's from now on. */
void response_set_json(
    struct response *response, uint16_t status, char *text, size_t length);

/* As bytes for the wire. False when out of memory. */
bool response_write(const struct response *response, bool last,
    const char *date, struct buffer *out);

#endif /* HTTP_RESPONSE_H */
