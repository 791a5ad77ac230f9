/* SPDX-License-Identifier: MIT */
#include <troupe/tree.h>

#include "actor/registry.h"
#include "system/system.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Names, paths, family. */

troupe_ref
troupe_parent(const troupe_self *self)
{
    struct trp_core *core;
    uint32_t parent;

    if (self == NULL) {
        return TROUPE_NONE;
    }
    core = self->core;
    /* relaxed: constant in a life. */
    parent = trp_load_relaxed(&trp_cold_of(core, self->cell)->parent);
    return parent == core->user.index
               ? TROUPE_NONE
               : trp_cell_ref(core, trp_cell_at(core, parent));
}

/* A generated name spells the ref, in one way: "$index-generation". */
static bool
parse_generated(const char *name, size_t length, troupe_ref *ref)
{
    char text[32], again[32];
    char *end;

    if (length < 4 || length >= sizeof text || name[0] != '$') {
        return false;
    }
    memcpy(text, name, length);
    text[length] = '\0';
    ref->index = (uint32_t)strtoul(text + 1, &end, 16);
    if (*end != '-') {
        return false;
    }
    ref->generation = (uint32_t)strtoul(end + 1, &end, 16);
    (void)snprintf(again, sizeof again, "$%x-%x", ref->index, ref->generation);
    return strcmp(text, again) == 0;
}

static bool
has_name(struct trp_core *core, uint32_t index)
{
    struct trp_extra *extra;
    bool has;

    trp_lock_acquire(&core->names); /* an extra is freed under it */
    extra = trp_load_acquire(&core->cold[index].extra); /* pairs: cell.extra */
    has = extra != NULL && extra->name != NULL;
    trp_lock_release(&core->names);
    return has;
}

/* A name that spells a ref: true only of a child of `parent` without a name. */
static bool
is_child(struct trp_core *core, uint32_t parent, troupe_ref ref)
{
    return trp_ref_is_possible(core, ref) &&
           troupe_ref_equal(
               trp_cell_resident(core, trp_cell_at(core, ref.index)), ref) &&
           trp_cell_parent(core, ref.index) == parent &&
           !has_name(core, ref.index) && trp_cell_lives(core, ref);
}

/*
 * The child of `parent` (TROUPE_NONE: a root) with this name, or TROUPE_NONE.
 * A child has a parent, so if the parent lives afterwards it is that one's and
 * not a child of who came after it.
 */
static troupe_ref
find_child(
    struct trp_core *core, troupe_ref parent, const char *name, size_t length)
{
    troupe_ref ref = TROUPE_NONE;

    if (parse_generated(name, length, &ref)) {
        if (!is_child(core, parent.index, ref)) {
            ref = TROUPE_NONE;
        }
    } else {
        struct trp_extra *extra;

        trp_lock_acquire(&core->names);
        extra = trp_registry_find_locked(core, parent.index, name, length);
        /* Its cell is not used again before it is out. */
        ref = extra != NULL
                  ? trp_cell_resident(core, trp_cell_at(core, extra->index))
                  : TROUPE_NONE;
        trp_lock_release(&core->names);
    }
    return parent.index == 0 || trp_cell_lives(core, parent) ? ref
                                                             : TROUPE_NONE;
}

troupe_ref
troupe_child(const troupe_self *self, const char *name)
{
    if (self == NULL || name == NULL) {
        return TROUPE_NONE;
    }
    return find_child(self->core, self->ref, name, strlen(name));
}

size_t
troupe_children(const troupe_self *self, troupe_ref *children, size_t capacity)
{
    struct trp_core *core;
    struct trp_cold *cold;
    size_t count = 0;

    if (self == NULL) {
        return 0;
    }
    core = self->core;
    cold = trp_cold_of(core, self->cell);
    trp_lock_acquire(&cold->lock);
    for (uint32_t index = trp_first_child_locked(cold); index != 0;) {
        troupe_ref ref = trp_cell_resident(core, trp_cell_at(core, index));

        if (!troupe_ref_is_none(ref)) {
            if (children != NULL && count < capacity) {
                children[count] = ref;
            }
            count++;
        }
        index = core->cold[index].next;
        if (index == trp_first_child_locked(cold)) {
            break;
        }
    }
    trp_lock_release(&cold->lock);
    return count;
}

size_t
troupe_path(
    const troupe_system *system, troupe_ref actor, char *text, size_t bytes)
{
    if (system == NULL || !trp_core_is_alive(&system->core)) {
        if (text != NULL && bytes > 0) {
            text[0] = '\0';
        }
        return 0;
    }
    return trp_registry_path(trp_core_of(system), actor, text, bytes);
}

/* Skips "troupe://name"; NULL: another system, or not absolute. */
static const char *
strip_system(const struct trp_core *core, const char *path)
{
    size_t length = strlen(core->name);

    if (strncmp(path, "troupe://", 9) == 0) {
        path += 9;
        if (strncmp(path, core->name, length) != 0) {
            return NULL;
        }
        path += length;
    }
    return path[0] == '/' ? path : NULL;
}

troupe_status
troupe_lookup(const troupe_system *system, const char *path, troupe_ref *actor)
{
    static const char call[] = "troupe_lookup";
    troupe_status status = trp_system_check(system, call);
    struct trp_core *core = trp_core_of(system);
    troupe_ref found = TROUPE_NONE;

    if (status != TROUPE_OK) {
        return status;
    }
    if (path == NULL || actor == NULL) {
        return trp_refuse(TROUPE_E_INVALID, call,
            path == NULL ? "path" : "actor", "must not be NULL", "NULL");
    }
    path = strip_system(core, path);
    if (path == NULL) {
        return TROUPE_E_MISSING;
    }
    while (*path == '/') {
        size_t length = strcspn(path + 1, "/");

        found = find_child(core, found, path + 1, length);
        if (troupe_ref_is_none(found)) {
            return TROUPE_E_MISSING;
        }
        path += 1 + length;
    }
    *actor = found;
    return TROUPE_OK;
}
