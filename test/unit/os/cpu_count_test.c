/* SPDX-License-Identifier: MIT */
#include "os/cpu_count.h"

#include <criterion/criterion.h>

#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * Each test writes the tree it needs below a temporary directory, and looks at
 * the quota: the count is never more than the CPUs of this machine.
 */
static char root[PATH_MAX];

static void
create_root(void)
{
    strcpy(root, "/tmp/troupe-cgroup-XXXXXX");
    cr_assert_not_null(mkdtemp(root));
}

static int
remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st;
    (void)kind;
    (void)at;
    return remove(path);
}

static void
remove_root(void)
{
    (void)nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

TestSuite(os_cpu_count, .init = create_root, .fini = remove_root);

/* Writes root/name and the directories on the way to it. */
static void
put(const char *name, const char *text)
{
    char path[2 * PATH_MAX];
    FILE *file;

    (void)snprintf(path, sizeof path, "%s/%s", root, name);
    for (char *at = path + strlen(root) + 1; *at != '\0'; at++) {
        if (*at == '/') {
            *at = '\0';
            (void)mkdir(path, 0755);
            *at = '/';
        }
    }
    file = fopen(path, "w");
    cr_assert_not_null(file, "%s", path);
    cr_assert(fputs(text, file) >= 0);
    cr_assert_eq(fclose(file), 0);
}

static uint32_t
machine(void)
{
    cpu_set_t mask;

    CPU_ZERO(&mask);
    cr_assert_eq(sched_getaffinity(0, sizeof mask, &mask), 0);
    return (uint32_t)CPU_COUNT(&mask);
}

static void
expect(uint32_t quota)
{
    uint32_t most = machine();

    cr_assert_eq(trp_cpu_quota(root), quota);
    cr_assert_eq(trp_cpu_count(root), quota < most ? quota : most);
}

static void
expect_no_limit(void)
{
    expect(UINT32_MAX);
}

/* --- version 2 ------------------------------------------------------------ */

static void
expect_of_cpu_max(const char *text, uint32_t quota)
{
    put("proc_self_cgroup", "0::/service\n");
    put("service/cpu.max", text);
    expect(quota);
}

Test(os_cpu_count, v2_quota_of_one_cpu_gives_one)
{
    expect_of_cpu_max("100000 100000\n", 1);
}

Test(os_cpu_count, v2_quota_of_half_a_cpu_gives_one)
{
    expect_of_cpu_max("50000 100000\n", 1);
}

Test(os_cpu_count, v2_quota_is_rounded_up)
{
    expect_of_cpu_max("100001 100000\n", 2);
}

Test(os_cpu_count, v2_period_counts)
{
    expect_of_cpu_max("20000 20000\n", 1);
}

Test(os_cpu_count, v2_one_number_has_the_default_period)
{
    expect_of_cpu_max("100000\n", 1);
}

Test(os_cpu_count, v2_value_without_newline_counts)
{
    expect_of_cpu_max("100000 100000", 1);
}

Test(os_cpu_count, v2_max_is_no_limit)
{
    expect_of_cpu_max("max 100000\n", UINT32_MAX);
}

Test(os_cpu_count, v2_huge_quota_is_no_limit)
{
    expect_of_cpu_max("999999999999999999 1\n", UINT32_MAX);
}

Test(os_cpu_count, v2_garbled_values_are_ignored)
{
    static const char *const garbled[] = {"", "\n", " ", "abc", "-1 100000",
        "0 100000", "100000 0", "100000 -5", "100000 100000 7", "1e5 100000",
        "100000x 100000", "100000 100000x", "+100000 100000", "0x10 100",
        "99999999999999999999999999 100000", "maximum", "100000,100000",
        "18446744073709651616 100000"};

    for (size_t i = 0; i < sizeof garbled / sizeof *garbled; i++) {
        put("proc_self_cgroup", "0::/service\n");
        put("service/cpu.max", garbled[i]);
        cr_assert_eq(trp_cpu_quota(root), UINT32_MAX, "'%s'", garbled[i]);
    }
}

Test(os_cpu_count, v2_file_that_is_too_long_is_ignored)
{
    char text[4096];

    memset(text, ' ', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    memcpy(text, "100000 100000", 13);
    expect_of_cpu_max(text, UINT32_MAX);
}

Test(os_cpu_count, v2_directory_in_place_of_the_file_is_ignored)
{
    put("proc_self_cgroup", "0::/service\n");
    put("service/cpu.max/file", "");
    expect_no_limit();
}

Test(os_cpu_count, v2_limit_of_an_ancestor_counts)
{
    put("proc_self_cgroup", "0::/slice/service/scope\n");
    put("slice/cpu.max", "100000 100000\n");
    put("slice/service/cpu.max", "max 100000\n");
    put("slice/service/scope/cpu.max", "800000 100000\n");
    expect(1);
}

Test(os_cpu_count, v2_limit_of_the_group_below_a_generous_ancestor_counts)
{
    put("proc_self_cgroup", "0::/slice/service\n");
    put("slice/cpu.max", "800000 100000\n");
    put("slice/service/cpu.max", "100000 100000\n");
    expect(1);
}

Test(os_cpu_count, v2_limit_at_the_root_of_a_container_counts)
{
    put("proc_self_cgroup", "0::/\n");
    put("cpu.max", "100000 100000\n");
    expect(1);
}

Test(os_cpu_count, v2_path_of_the_host_still_finds_the_root)
{
    put("proc_self_cgroup", "0::/docker/0123456789abcdef\n");
    put("cpu.max", "100000 100000\n");
    expect(1);
}

Test(os_cpu_count, v2_limit_of_a_sibling_does_not_count)
{
    put("proc_self_cgroup", "0::/slice/mine\n");
    put("slice/mine/cpu.max", "max 100000\n");
    put("slice/other/cpu.max", "100000 100000\n");
    put("slice/mine/child/cpu.max", "100000 100000\n");
    expect_no_limit();
}

Test(os_cpu_count, v2_path_outside_the_namespace_does_not_leave_the_root)
{
    put("tree/proc_self_cgroup", "0::/../elsewhere\n");
    put("elsewhere/cpu.max", "100000 100000\n");
    strcat(root, "/tree");
    expect_no_limit();
    *strrchr(root, '/') = '\0';
}

Test(os_cpu_count, v2_path_without_a_slash_is_ignored)
{
    put("tree/proc_self_cgroup", "0::x\n");
    put("treex/cpu.max", "100000 100000\n");
    strcat(root, "/tree");
    expect_no_limit();
    *strrchr(root, '/') = '\0';
}

Test(os_cpu_count, v2_name_that_begins_with_dots_is_a_name)
{
    put("proc_self_cgroup", "0::/..a/b\n");
    put("..a/b/cpu.max", "100000 100000\n");
    expect(1);
}

Test(os_cpu_count, v2_path_with_a_colon_is_read_whole)
{
    put("proc_self_cgroup", "0::/a:b/c\n");
    put("a:b/c/cpu.max", "100000 100000\n");
    expect(1);
}

Test(os_cpu_count, v2_last_line_without_newline_counts)
{
    put("proc_self_cgroup", "0::/service");
    put("service/cpu.max", "100000 100000\n");
    expect(1);
}

/* --- version 1 ------------------------------------------------------------ */

static void
expect_of_cfs(const char *quota, const char *period, uint32_t count)
{
    put("proc_self_cgroup", "4:memory:/x\n3:cpu,cpuacct:/service\n");
    put("cpu/service/cpu.cfs_quota_us", quota);
    put("cpu/service/cpu.cfs_period_us", period);
    expect(count);
}

Test(os_cpu_count, v1_quota_of_one_cpu_gives_one)
{
    expect_of_cfs("100000\n", "100000\n", 1);
}

Test(os_cpu_count, v1_quota_is_rounded_up)
{
    expect_of_cfs("150000\n", "100000\n", 2);
}

Test(os_cpu_count, v1_minus_one_is_no_limit)
{
    expect_of_cfs("-1\n", "100000\n", UINT32_MAX);
}

Test(os_cpu_count, v1_garbled_period_is_ignored)
{
    expect_of_cfs("100000\n", "0\n", UINT32_MAX);
    expect_of_cfs("100000\n", "x\n", UINT32_MAX);
    expect_of_cfs("100000\n", "100000 100000\n", UINT32_MAX);
}

Test(os_cpu_count, v1_missing_period_is_ignored)
{
    put("proc_self_cgroup", "3:cpu:/service\n");
    put("cpu/service/cpu.cfs_quota_us", "100000\n");
    expect_no_limit();
}

Test(os_cpu_count, v1_mount_named_after_both_controllers_counts)
{
    put("proc_self_cgroup", "3:cpu,cpuacct:/service\n");
    put("cpu,cpuacct/service/cpu.cfs_quota_us", "100000\n");
    put("cpu,cpuacct/service/cpu.cfs_period_us", "100000\n");
    expect(1);
}

Test(os_cpu_count, v1_mount_named_in_the_other_order_counts)
{
    put("proc_self_cgroup", "3:cpuacct,cpu:/service\n");
    put("cpuacct,cpu/service/cpu.cfs_quota_us", "100000\n");
    put("cpuacct,cpu/service/cpu.cfs_period_us", "100000\n");
    expect(1);
}

Test(os_cpu_count, v1_limit_of_an_ancestor_counts)
{
    put("proc_self_cgroup", "3:cpu:/slice/service\n");
    put("cpu/slice/cpu.cfs_quota_us", "100000\n");
    put("cpu/slice/cpu.cfs_period_us", "100000\n");
    put("cpu/slice/service/cpu.cfs_quota_us", "-1\n");
    put("cpu/slice/service/cpu.cfs_period_us", "100000\n");
    expect(1);
}

Test(os_cpu_count, v1_other_controllers_do_not_count)
{
    put("proc_self_cgroup",
        "3:cpuset:/service\n2:cpuacct:/service\n1:name=cpu:/service\n");
    put("cpu/service/cpu.cfs_quota_us", "100000\n");
    put("cpu/service/cpu.cfs_period_us", "100000\n");
    expect_no_limit();
}

Test(os_cpu_count, v1_path_of_the_host_still_finds_the_root)
{
    put("proc_self_cgroup", "3:cpu,cpuacct:/docker/0123456789abcdef\n");
    put("cpu,cpuacct/cpu.cfs_quota_us", "100000\n");
    put("cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    expect(1);
}

/* --- both ----------------------------------------------------------------- */

Test(os_cpu_count, hybrid_takes_the_tighter_of_both)
{
    put("proc_self_cgroup", "3:cpu:/a\n0::/b\n");
    put("cpu/a/cpu.cfs_quota_us", "400000\n");
    put("cpu/a/cpu.cfs_period_us", "100000\n");
    put("unified/b/cpu.max", "100000 100000\n");
    expect(1);
    put("cpu/a/cpu.cfs_quota_us", "100000\n");
    put("unified/b/cpu.max", "400000 100000\n");
    expect(1);
}

Test(os_cpu_count, empty_tree_is_no_limit)
{
    put("proc_self_cgroup", "");
    expect_no_limit();
}

Test(os_cpu_count, roots_count_even_if_no_group_is_known)
{
    put("proc_self_cgroup", "");
    put("cpu.max", "100000 100000\n");
    expect(1);
    put("cpu.max", "max 100000\n");
    put("cpu/cpu.cfs_quota_us", "100000\n");
    put("cpu/cpu.cfs_period_us", "100000\n");
    expect(1);
}

Test(os_cpu_count, garbled_group_lines_are_ignored)
{
    put("proc_self_cgroup",
        "\n:\n::\n:::\n0\n0:\n0::\n0::relative\nx\n\n4:cpu\n4:cpu:\n,:,:,\n"
        "4:cpu,:/missing\n4:,,:/missing\n0::/service\n");
    put("service/cpu.max", "100000 100000\n");
    expect(1);
}

Test(os_cpu_count, group_line_longer_than_any_path_is_survived)
{
    static char lines[3 * PATH_MAX + 64];
    char *at = lines + sprintf(lines, "0::");

    for (size_t i = 0; i < 3 * PATH_MAX / 4; i++) {
        memcpy(at, "/abc", 4);
        at += 4;
    }
    strcpy(at, "\n0::/service\n");
    put("proc_self_cgroup", lines);
    expect_no_limit();
    put("service/cpu.max", "100000 100000\n");
    expect(1);
}

Test(os_cpu_count, missing_root_is_no_limit)
{
    cr_assert_eq(trp_cpu_count("/nonexistent/troupe"), machine());
}

Test(os_cpu_count, root_longer_than_any_path_is_no_limit)
{
    static char far[2 * PATH_MAX];

    memset(far, 'x', sizeof far - 1);
    far[0] = '/';
    cr_assert_eq(trp_cpu_quota(far), UINT32_MAX);
}

Test(os_cpu_count, affinity_of_the_calling_thread_counts)
{
    cpu_set_t all;
    cpu_set_t one;
    size_t first = 0;

    CPU_ZERO(&all);
    cr_assert_eq(sched_getaffinity(0, sizeof all, &all), 0);
    while (!CPU_ISSET(first, &all)) {
        first++;
    }
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    cr_assert_eq(sched_setaffinity(0, sizeof one, &one), 0);
    put("proc_self_cgroup", "0::/service\n");
    put("service/cpu.max", "800000 100000\n");
    cr_assert_eq(trp_cpu_count(root), 1);
    cr_assert_eq(trp_cpu_count(NULL), 1);
    cr_assert_eq(sched_setaffinity(0, sizeof all, &all), 0);
}

Test(os_cpu_count, the_machine_itself_gives_between_one_and_its_cpus)
{
    uint32_t count = trp_cpu_count(NULL);

    cr_assert(count >= 1 && count <= machine());
}

Test(os_cpu_count, no_descriptor_is_left_open)
{
    int before = open("/dev/null", O_RDONLY);
    int after;

    cr_assert(before >= 0);
    (void)close(before);
    put("proc_self_cgroup", "3:cpu:/a\n0::/a\n");
    put("a/cpu.max", "100000 100000\n");
    put("cpu/a/cpu.cfs_quota_us", "100000\n");
    put("cpu/a/cpu.cfs_period_us", "x\n");
    (void)trp_cpu_count(root);
    (void)trp_cpu_count(NULL);
    after = open("/dev/null", O_RDONLY);
    cr_assert_eq(before, after);
    (void)close(after);
}
