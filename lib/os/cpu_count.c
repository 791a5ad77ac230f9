/* SPDX-License-Identifier: MIT */
#include "os/cpu_count.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define NO_LIMIT UINT32_MAX

enum {
    MASK_BYTES = 8192,           /* 65536 CPUs; Linux stops at 8192 so far */
    LINE_BYTES = PATH_MAX + 256, /* id and controllers, then a path */
    VALUE_BYTES = 128,           /* two decimal numbers */
    DEFAULT_PERIOD_US = 100000   /* the kernel's */
};

/* Where one file of a hierarchy is: root + mount + the first `length` of path.
 */
struct group {
    const char *root;
    const char *mount; /* below root: "" or "/cpu" */
    const char *path;  /* "/a/b" */
    size_t length;
};

typedef uint32_t (*limit_fn)(const struct group *group);

static uint32_t
smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* --- files ---------------------------------------------------------------- */

static int
open_file(const char *path)
{
    int fd;

    do {
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    } while (fd < 0 && errno == EINTR);
    return fd;
}

static ssize_t
read_some(int fd, char *bytes, size_t size)
{
    ssize_t got;

    do {
        got = read(fd, bytes, size);
    } while (got < 0 && errno == EINTR);
    return got;
}

/* The whole of a short file, terminated; false if it is missing or longer. */
static bool
read_value(const struct group *group, const char *name, char *text)
{
    char path[PATH_MAX];
    size_t used = 0;
    ssize_t got;
    int fd;
    int length = snprintf(path, sizeof path, "%s%s%.*s/%s", group->root,
        group->mount, (int)group->length, group->path, name);

    if (length < 0 || (size_t)length >= sizeof path) {
        return false;
    }
    fd = open_file(path);
    if (fd < 0) {
        return false;
    }
    do {
        got = read_some(fd, text + used, VALUE_BYTES - used);
        used += got > 0 ? (size_t)got : 0;
    } while (got > 0 && used < VALUE_BYTES);
    (void)close(fd);
    if (got < 0 || used == VALUE_BYTES) {
        return false;
    }
    text[used] = '\0';
    return true;
}

/* --- numbers -------------------------------------------------------------- */

static const char *
skip_blanks(const char *text)
{
    return text + strspn(text, " \t\n");
}

/*
 * A positive decimal number. False, and the text is left alone, for a sign,
 * zero, letters, more than 18 digits; what follows it is the caller's business.
 */
static bool
take_number(const char **text, uint64_t *number)
{
    const char *from = skip_blanks(*text);
    size_t digits = strspn(from, "0123456789");
    uint64_t sum = 0;

    if (digits == 0 || digits > 18) {
        return false;
    }
    for (size_t i = 0; i < digits; i++) {
        sum = sum * 10 + (uint64_t)(from[i] - '0');
    }
    if (sum == 0) {
        return false;
    }
    *number = sum;
    *text = from + digits;
    return true;
}

static bool
is_end(const char *text)
{
    return *skip_blanks(text) == '\0';
}

/* Rounded up: a quota of half a CPU is not "no limit". */
static uint32_t
cpus(uint64_t quota_us, uint64_t period_us)
{
    uint64_t count = quota_us / period_us + (quota_us % period_us != 0);

    return count < NO_LIMIT ? (uint32_t)count : NO_LIMIT;
}

/* --- limits of one group -------------------------------------------------- */

/* cpu.max: "max 100000", "200000 100000", "200000". */
static uint32_t
limit_v2(const struct group *group)
{
    char text[VALUE_BYTES];
    const char *at = text;
    uint64_t quota;
    uint64_t period = DEFAULT_PERIOD_US;

    if (!read_value(group, "cpu.max", text) || !take_number(&at, &quota)) {
        return NO_LIMIT; /* "max" is no number either */
    }
    if (!is_end(at) && !take_number(&at, &period)) {
        return NO_LIMIT;
    }
    return is_end(at) ? cpus(quota, period) : NO_LIMIT;
}

static bool
read_number(const struct group *group, const char *name, uint64_t *number)
{
    char text[VALUE_BYTES];
    const char *at = text;

    return read_value(group, name, text) && take_number(&at, number) &&
           is_end(at);
}

/* A quota of -1 is no limit, and no number that take_number() accepts. */
static uint32_t
limit_v1(const struct group *group)
{
    uint64_t quota;
    uint64_t period;

    return read_number(group, "cpu.cfs_quota_us", &quota) &&
                   read_number(group, "cpu.cfs_period_us", &period)
               ? cpus(quota, period)
               : NO_LIMIT;
}

/* --- limits of a group and its ancestors ---------------------------------- */

/* "/../x": the group is outside what this mount shows. */
static bool
leaves_root(const char *path)
{
    const char *dots = strstr(path, "/..");

    while (dots != NULL && dots[3] != '/' && dots[3] != '\0') {
        dots = strstr(dots + 1, "/..");
    }
    return dots != NULL;
}

/*
 * From the group up to the root of the mount. In a container the path often
 * names directories of the host that do not exist here, while the root of the
 * mount is the container's own group: the walk finds it there.
 */
static uint32_t
tightest(const char *root, const char *mount, const char *path, limit_fn limit)
{
    struct group group = {root, mount, path, strlen(path)};
    uint32_t count = NO_LIMIT;

    if (leaves_root(path)) {
        group.length = 0;
    }
    for (;;) {
        while (group.length > 0 && path[group.length - 1] == '/') {
            group.length--;
        }
        count = smaller(count, limit(&group));
        if (group.length == 0) {
            return count;
        }
        while (group.length > 0 && path[group.length - 1] != '/') {
            group.length--;
        }
    }
}

/* Alone, or beside version 1 hierarchies ("hybrid"). */
static uint32_t
tightest_v2(const char *root, const char *path)
{
    return smaller(tightest(root, "", path, limit_v2),
        tightest(root, "/unified", path, limit_v2));
}

/* The mount is named after its controllers; most systems also have a link. */
static uint32_t
tightest_v1(const char *root, const char *path)
{
    uint32_t count = tightest(root, "/cpu", path, limit_v1);

    count = smaller(count, tightest(root, "/cpu,cpuacct", path, limit_v1));
    return smaller(count, tightest(root, "/cpuacct,cpu", path, limit_v1));
}

/* --- /proc/self/cgroup ---------------------------------------------------- */

static bool
lists_cpu(const char *controllers, size_t length)
{
    const char *end = controllers + length;

    while (controllers < end) {
        const char *comma =
            memchr(controllers, ',', (size_t)(end - controllers));
        size_t size = (size_t)((comma != NULL ? comma : end) - controllers);

        if (size == 3 && memcmp(controllers, "cpu", 3) == 0) {
            return true;
        }
        controllers += size + 1;
    }
    return false;
}

/* "4:cpu,cpuacct:/a/b" or, version 2, "0::/a/b". */
static uint32_t
limit_of_line(const char *root, const char *line)
{
    const char *controllers = strchr(line, ':');
    const char *path =
        controllers != NULL ? strchr(controllers + 1, ':') : NULL;

    if (path == NULL || path[1] != '/') {
        return NO_LIMIT;
    }
    controllers++;
    if (controllers == path) {
        return tightest_v2(root, path + 1);
    }
    return lists_cpu(controllers, (size_t)(path - controllers))
               ? tightest_v1(root, path + 1)
               : NO_LIMIT;
}

struct reader {
    int fd;
    ssize_t next;
    ssize_t end;
    char chunk[512];
};

/* -1 at the end of the file and when it cannot be read. */
static int
next_char(struct reader *from)
{
    if (from->next == from->end) {
        from->next = 0;
        from->end = read_some(from->fd, from->chunk, sizeof from->chunk);
        if (from->end <= 0) {
            from->end = 0;
            return -1;
        }
    }
    return (unsigned char)from->chunk[from->next++];
}

static uint32_t
limit_of_lines(const char *root, int fd)
{
    struct reader from = {.fd = fd};
    char line[LINE_BYTES];
    size_t length = 0;
    uint32_t count = NO_LIMIT;

    for (int c = next_char(&from); c >= 0; c = next_char(&from)) {
        if (c != '\n') {
            line[length] = (char)c;
            /* What does not fit is cut; its ancestors still count. */
            length += length < sizeof line - 1;
            continue;
        }
        line[length] = '\0';
        count = smaller(count, limit_of_line(root, line));
        length = 0;
    }
    line[length] = '\0';
    return smaller(count, limit_of_line(root, line));
}

static int
open_own_groups(const char *root)
{
    char path[PATH_MAX];
    int length = snprintf(path, sizeof path, "%s/proc_self_cgroup", root);
    int fd = -1;

    if (length > 0 && (size_t)length < sizeof path) {
        fd = open_file(path);
    }
    return fd >= 0 ? fd : open_file("/proc/self/cgroup");
}

uint32_t
trp_cpu_quota(const char *cgroup_root)
{
    const char *root = cgroup_root != NULL ? cgroup_root : "/sys/fs/cgroup";
    /* Roots are ancestors of everything; this holds without /proc, too. */
    uint32_t count = smaller(tightest_v2(root, "/"), tightest_v1(root, "/"));
    int fd = cgroup_root != NULL ? open_own_groups(root)
                                 : open_file("/proc/self/cgroup");

    if (fd >= 0) {
        count = smaller(count, limit_of_lines(root, fd));
        (void)close(fd);
    }
    return count;
}

/* --- the affinity mask ---------------------------------------------------- */

/* The kernel refuses a mask smaller than its own, so try larger ones. */
static uint32_t
affinity_count(void)
{
    cpu_set_t mask[MASK_BYTES / sizeof(cpu_set_t)];

    for (size_t bytes = sizeof mask[0]; bytes <= sizeof mask; bytes *= 2) {
        memset(mask, 0, bytes);
        if (sched_getaffinity(0, bytes, mask) == 0) {
            int count = CPU_COUNT_S(bytes, mask);

            return count > 0 ? (uint32_t)count : 1;
        }
        if (errno != EINVAL) {
            break; /* forbidden by a sandbox */
        }
    }
    return 1;
}

uint32_t
trp_cpu_count(const char *cgroup_root)
{
    return smaller(affinity_count(), trp_cpu_quota(cgroup_root));
}
