/* SPDX-License-Identifier: MIT */
#ifndef HTTP_DISPATCH_H
#define HTTP_DISPATCH_H

#include "messages.h"
#include "request.h"

struct loop;

/*
 * Sends the request to the actor with the fewest waiting messages; the answer
 * comes to the loop's port with this ticket. 0, or the status to answer with.
 */
uint16_t dispatch(
    struct loop *loop, struct ticket ticket, struct request *request);
/* An answer has come. */
void dispatch_done(struct loop *loop);

#endif /* HTTP_DISPATCH_H */
