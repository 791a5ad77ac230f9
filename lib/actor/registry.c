/* SPDX-License-Identifier: MIT */
#include "actor/registry.h"

#include <stdio.h>
#include <string.h>

#define FIRST_BUCKETS 64u

struct trp_registry_table {
    size_t buckets, used;
    struct trp_extra *bucket[];
};

static size_t
table_bytes(size_t buckets)
{
    return sizeof(struct trp_registry_table) +
           buckets * sizeof(struct trp_extra *);
}

/* FNV-1a (Fowler, Noll, Vo), begun with the parent. */
static uint64_t
hash_of(uint32_t parent, const char *name, size_t bytes)
{
    uint64_t hash = UINT64_C(14695981039346656037) ^ parent;

    for (size_t i = 0; i < bytes; i++) {
        hash = (hash ^ (unsigned char)name[i]) * UINT64_C(1099511628211);
    }
    return hash;
}

static struct trp_extra **
bucket_of(struct trp_registry_table *table, uint64_t hash)
{
    return &table->bucket[(hash ^ (hash >> 32)) & (table->buckets - 1)];
}

struct trp_extra *
trp_registry_find_locked(
    struct trp_core *core, uint32_t parent, const char *name, size_t bytes)
{
    uint64_t hash = hash_of(parent, name, bytes);
    struct trp_extra *extra;

    if (core->registry == NULL) {
        return NULL;
    }
    for (extra = *bucket_of(core->registry, hash); extra != NULL;
         extra = extra->same_hash) {
        if (extra->hash == hash && extra->name_bytes == bytes &&
            memcmp(extra->name, name, bytes) == 0 &&
            trp_cell_parent(core, extra->index) == parent) {
            return extra;
        }
    }
    return NULL;
}

static void
free_table(struct trp_core *core, struct trp_registry_table *table)
{
    if (table != NULL) {
        trp_heap_free(&core->heap, table, table_bytes(table->buckets));
    }
}

/* Twice as many buckets, or the first ones. */
static bool
grow(struct trp_core *core)
{
    struct trp_registry_table *old = core->registry;
    size_t buckets = old != NULL ? 2 * old->buckets : FIRST_BUCKETS;
    struct trp_registry_table *table =
        trp_heap_alloc(&core->heap, table_bytes(buckets));

    if (table == NULL) {
        return false;
    }
    table->buckets = buckets;
    for (size_t i = 0; old != NULL && i < old->buckets; i++) {
        struct trp_extra *extra = old->bucket[i];

        while (extra != NULL) {
            struct trp_extra *next = extra->same_hash;
            struct trp_extra **bucket = bucket_of(table, extra->hash);

            extra->same_hash = *bucket;
            *bucket = extra;
            table->used++;
            extra = next;
        }
    }
    /* In this order: a fork in between must not leave what was freed. */
    core->registry = table;
    free_table(core, old);
    return true;
}

bool
trp_registry_add_locked(
    struct trp_core *core, uint32_t parent, struct trp_extra *extra)
{
    struct trp_extra **bucket;

    if ((core->registry == NULL ||
            core->registry->used >= core->registry->buckets) &&
        !grow(core)) {
        return false;
    }
    extra->hash = hash_of(parent, extra->name, extra->name_bytes);
    bucket = bucket_of(core->registry, extra->hash);
    extra->same_hash = *bucket;
    *bucket = extra;
    core->registry->used++;
    return true;
}

void
trp_registry_remove_locked(struct trp_core *core, struct trp_extra *extra)
{
    struct trp_extra **link = bucket_of(core->registry, extra->hash);

    while (*link != extra) {
        link = &(*link)->same_hash;
    }
    *link = extra->same_hash;
    core->registry->used--;
}

void
trp_registry_fini(struct trp_core *core)
{
    struct trp_registry_table *table = core->registry;

    core->registry = NULL;
    free_table(core, table);
}

/* A path under construction: what does not fit is only counted. */
struct text {
    char *at;
    size_t room;
    size_t length;
};

static void
append(struct text *text, const char *more, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++, text->length++) {
        if (text->length + 1 < text->room) {
            text->at[text->length] = more[i];
        }
    }
}

static void
append_segment(struct trp_core *core, struct text *text, uint32_t index)
{
    /* Freed only under core->names, which we hold; not written under it. */
    struct trp_extra *extra =
        trp_load_acquire(&core->cold[index].extra); /* pairs: cell.extra */
    char number[32];

    append(text, "/", 1);
    if (extra != NULL && extra->name != NULL) {
        append(text, extra->name, extra->name_bytes);
    } else {
        troupe_ref ref = trp_cell_ref(core, trp_cell_at(core, index));
        int length = snprintf(
            number, sizeof number, "$%x-%x", ref.index, ref.generation);

        append(text, number, (size_t)length);
    }
}

/*
 * Ancestors outlive descendants (C3): if the actor still lives at the end, all
 * that was read on the way was its path.
 */
size_t
trp_registry_path(
    struct trp_core *core, troupe_ref ref, char *text, size_t bytes)
{
    struct text out = {text, bytes, 0};
    uint32_t index = ref.index;
    uint32_t depth = 0;
    bool alive;

    if (text != NULL && bytes > 0) {
        text[0] = '\0';
    }
    if (!trp_ref_is_possible(core, ref)) {
        return 0;
    }
    trp_lock_acquire(&core->names);
    append(&out, "troupe://", 9);
    append(&out, core->name, strlen(core->name));
    alive = troupe_ref_equal(
        trp_cell_resident(core, trp_cell_at(core, ref.index)), ref);
    for (uint32_t i = index; alive && i != 0; i = trp_cell_parent(core, i)) {
        depth++;
    }
    /* Roots first: the i-th step goes depth - i parents up. */
    while (alive && depth > 0) {
        index = ref.index;
        for (uint32_t up = 1; up < depth && index != 0; up++) {
            index = trp_cell_parent(core, index);
        }
        if (index != 0) {
            append_segment(core, &out, index);
        }
        depth--;
    }
    alive = alive && trp_cell_lives(core, ref);
    trp_lock_release(&core->names);
    if (!alive) {
        out.length = 0;
    }
    if (text != NULL && bytes > 0) {
        text[out.length < bytes ? out.length : bytes - 1] = '\0';
    }
    return out.length;
}
