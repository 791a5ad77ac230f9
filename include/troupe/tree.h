/* SPDX-License-Identifier: MIT */
#ifndef TROUPE_TREE_H
#define TROUPE_TREE_H

#include <troupe/types.h>

TROUPE_BEGIN_DECLS

/*
 * Every actor has a parent and a path, troupe://system/user/orders/routee-3.
 * A name is not empty, not "." or "..", and has no '/', no '\\', no control
 * character, no leading '$' and at most 255 bytes. It is free again once the
 * child has stopped.
 */

/* TROUPE_NONE for a child of /user. Of the calling actor. */
TROUPE_API troupe_ref troupe_parent(const troupe_self *self);

/* Direct child by name, or TROUPE_NONE. */
TROUPE_API troupe_ref troupe_child(const troupe_self *self, const char *name);

/* In spawn order; fills up to `capacity`, returns how many there are. */
TROUPE_API size_t troupe_children(
    const troupe_self *self, troupe_ref *children, size_t capacity);

/*
 * Full path of an actor that lives, or "" once it has gone. Returns the length
 * needed, like snprintf. Any thread.
 */
TROUPE_API size_t troupe_path(
    const troupe_system *system, troupe_ref actor, char *text, size_t bytes);

/*
 * The actor at an absolute path ("/user/orders" or with the troupe:// part).
 * TROUPE_E_MISSING when nobody is there now. Any thread; takes a lock of the
 * tree, so look up once and keep the ref.
 */
TROUPE_API TROUPE_NODISCARD troupe_status troupe_lookup(
    const troupe_system *system, const char *path, troupe_ref *actor);

TROUPE_END_DECLS

#endif /* TROUPE_TREE_H */
