/* SPDX-License-Identifier: MIT */
#include "response.h"

#include <http_parser.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct response *
response_new(uint32_t serial)
{
    struct response *response = malloc(sizeof *response);

    if (response != NULL) {
        response->next = NULL;
        response->serial = serial;
        response->status = 0;
        response->head_only = false;
        response->http10 = false;
        response->json = false;
        response->allow = NULL;
        response->text = NULL;
        response->length = 0;
    }
    return response;
}

void
response_free(struct response *response)
{
    free(response->text);
    free(response);
}

void
response_refuse(struct response *response, uint16_t status, const char *reason)
{
    int length = snprintf(response->small, sizeof response->small,
        "%u %s%s%s\n", status, http_status_str((enum http_status)status),
        reason != NULL ? ": " : "", reason != NULL ? reason : "");

    response->status = status;
    response->length = (size_t)length < sizeof response->small
                           ? (size_t)length
                           : sizeof response->small - 1;
}

void
response_set(
    struct response *response, uint16_t status, const char *text, size_t length)
{
    memcpy(response->small, text, length);
    response->status = status;
    response->length = length;
}

void
response_set_json(
    struct response *response, uint16_t status, char *text, size_t length)
{
    response->text = text;
    response->status = status;
    response->length = length;
    response->json = true;
}

bool
response_write(const struct response *response, bool last, const char *date,
    struct buffer *out)
{
    char head[320]; /* the longest of all that can be written is 259 bytes */
    const char *connection = "";
    int length;

    if (last) {
        connection = "Connection: close\r\n";
    } else if (response->http10) {
        connection = "Connection: keep-alive\r\n";
    }
    length = snprintf(head, sizeof head,
        "HTTP/1.1 %u %s\r\n"
        "Date: %s\r\n"
        "Content-Type: %s\r\n"
        "Content-Length: %zu\r\n"
        "%s%s%s%s%s\r\n",
        response->status, http_status_str((enum http_status)response->status),
        date, response->json ? "application/json" : "text/plain; charset=utf-8",
        response->length, connection,
        response->status == 503 ? "Retry-After: 1\r\n" : "",
        response->allow != NULL ? "Allow: " : "",
        response->allow != NULL ? response->allow : "",
        response->allow != NULL ? "\r\n" : "");
    return buffer_append(out, head, (size_t)length) &&
           (response->head_only ||
               buffer_append(out,
                   response->text != NULL ? response->text : response->small,
                   response->length));
}
