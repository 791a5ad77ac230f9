/* SPDX-License-Identifier: MIT */
#ifndef TRP_OS_CPU_COUNT_H
#define TRP_OS_CPU_COUNT_H

#include <stdint.h>

/*
 * How many threads can really run at a time, at least 1: the smaller of
 *
 *   - the CPUs in the affinity mask of the calling thread, and
 *   - the tightest CPU quota of its control group and all ancestors, rounded
 *     up (half a CPU is one thread), version 1 and version 2.
 *
 * `cgroup_root` is where the hierarchies are mounted; NULL is /sys/fs/cgroup.
 * The process's own group is read from /proc/self/cgroup, or from
 * `<cgroup_root>/proc_self_cgroup` where that file exists (tests). A file that
 * is missing or makes no sense sets no limit: the answer is then too high,
 * never an error. Any thread; no allocation, about 18 KiB of stack, no state.
 */
uint32_t trp_cpu_count(const char *cgroup_root);
/* The second of them alone; UINT32_MAX: there is none. */
uint32_t trp_cpu_quota(const char *cgroup_root);

#endif /* TRP_OS_CPU_COUNT_H */
