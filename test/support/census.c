/* SPDX-License-Identifier: MIT */
#include "support/census.h"

#include "support/await.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static uint32_t
entries(const char *path)
{
    DIR *folder = opendir(path);
    uint32_t count = 0;

    if (folder == NULL) {
        perror(path);
        abort();
    }
    for (struct dirent *entry = readdir(folder); entry != NULL;
         entry = readdir(folder)) {
        count += entry->d_name[0] != '.';
    }
    (void)closedir(folder);
    return count;
}

static uint32_t
lines(const char *path)
{
    FILE *file = fopen(path, "r");
    uint32_t count = 0;
    int c;

    if (file == NULL) {
        perror(path);
        abort();
    }
    while ((c = getc(file)) != EOF) {
        count += c == '\n';
    }
    (void)fclose(file);
    return count;
}

struct test_census
test_census(void)
{
    /* Both lists hold the descriptor that reads them. */
    return (struct test_census){entries("/proc/self/task"),
        entries("/proc/self/fd"), lines("/proc/self/maps")};
}

static bool
is_same(void *user)
{
    const struct test_census *before = user;
    struct test_census now = test_census();

    return now.threads == before->threads &&
           now.descriptors == before->descriptors;
}

bool
test_census_is(struct test_census before)
{
    struct test_census now;

    if (test_await(is_same, &before)) {
        return true;
    }
    now = test_census();
    (void)fprintf(stderr,
        "test_census: %u threads and %u descriptors, were %u and %u\n",
        now.threads, now.descriptors, before.threads, before.descriptors);
    return false;
}

uint64_t
test_resident_bytes(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    unsigned long all;
    unsigned long resident;

    if (file == NULL || fscanf(file, "%lu %lu", &all, &resident) != 2) {
        abort();
    }
    (void)fclose(file);
    return (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

uint64_t
test_resident_bytes_in(void *at, size_t bytes)
{
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    size_t pages = bytes / page_bytes;
    unsigned char *present = malloc(pages);
    uint64_t count = 0;

    if (present == NULL || mincore(at, pages * page_bytes, present) != 0) {
        abort();
    }
    for (size_t i = 0; i < pages; i++) {
        count += present[i] & 1;
    }
    free(present);
    return count * page_bytes;
}
