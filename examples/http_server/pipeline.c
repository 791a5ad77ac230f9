/* SPDX-License-Identifier: MIT */
#include "pipeline.h"

void
pipeline_init(struct pipeline *pipeline)
{
    *pipeline = (struct pipeline){0};
    pipeline->last = &pipeline->first;
}

void
pipeline_free(struct pipeline *pipeline)
{
    while (pipeline->first != NULL) {
        response_free(pipeline_take(pipeline));
    }
}

struct response *
pipeline_add(struct pipeline *pipeline)
{
    struct response *response = response_new(pipeline->serial);

    if (response != NULL) {
        pipeline->serial++;
        pipeline->due++;
        *pipeline->last = response;
        pipeline->last = &response->next;
    }
    return response;
}

struct response *
pipeline_answered(struct pipeline *pipeline, uint32_t serial)
{
    struct response *response = pipeline->first;

    while (response != NULL && response->serial != serial) {
        response = response->next;
    }
    if (response == NULL || response->status != 0) {
        return NULL;
    }
    pipeline->waiting--;
    return response;
}

bool
pipeline_is_ready(const struct pipeline *pipeline)
{
    return pipeline->first != NULL && pipeline->first->status != 0;
}

struct response *
pipeline_take(struct pipeline *pipeline)
{
    struct response *response = pipeline->first;

    pipeline->first = response->next;
    if (pipeline->first == NULL) {
        pipeline->last = &pipeline->first;
    }
    pipeline->due--;
    return response;
}
