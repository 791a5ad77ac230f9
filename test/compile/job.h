/* SPDX-License-Identifier: MIT */
#ifndef TEST_COMPILE_JOB_H
#define TEST_COMPILE_JOB_H

#include <troupe/troupe.h>

struct job {
    int n;
};
TROUPE_MSG_TYPE(job_type, struct job, 1);

#endif /* TEST_COMPILE_JOB_H */
