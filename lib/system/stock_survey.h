/* SPDX-License-Identifier: MIT */
#ifndef TRP_SYSTEM_STOCK_SURVEY_H
#define TRP_SYSTEM_STOCK_SURVEY_H

/* One pass over all cells: see system/stock_metrics.h. */

#include "system/stock_metrics.h"

/* Of one class, by its index. */
struct trp_survey_class {
    uint64_t actors;
    uint64_t queued;
    uint32_t deepest;
};

struct trp_survey_deep {
    troupe_ref ref;
    uint32_t depth;
    const struct trp_class *class;
    char *path; /* NULL: has gone since */
    size_t path_bytes;
};

struct trp_survey {
    uint32_t holders; /* under the lock of the stock: the store, readers */
    uint64_t at_ns;
    struct trp_survey_class *classes;
    size_t class_count;
    struct trp_survey_deep *deep;
    size_t deep_count, deep_room;
    uint64_t deep_rest; /* messages of those that are too many to be listed */
};

/* One that is young enough; to be given back. E_NOMEM. */
troupe_status trp_survey_hold(
    troupe_system *system, struct trp_survey **survey);
void trp_survey_give(troupe_system *system, struct trp_survey *survey);

/* NULL is allowed. */
void trp_survey_free(troupe_system *system, struct trp_survey *survey);

#endif /* TRP_SYSTEM_STOCK_SURVEY_H */
