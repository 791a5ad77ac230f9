/* SPDX-License-Identifier: MIT */
#include "system/spawn.h"

#include "actor/cell.h"
#include "actor/rules.h"
#include "actor/supervise.h"
#include "base/options.h"
#include "system/mailbox_options.h"
#include "system/system.h"

#include <string.h>

/* Type and options -> a running cell. */

#define NAME_BYTES_MAX 255
#define STATE_BYTES_MAX ((size_t)1 << 30)
#define ACTOR_FLAGS (TROUPE_ACTOR_KEEP_CHILDREN | TROUPE_ACTOR_DEATH_PACT)

troupe_status
trp_spawn_check_name(const char *name, const char *option, const char *call)
{
    size_t length = strlen(name);

    if (length == 0 || length > NAME_BYTES_MAX) {
        return trp_refuse(TROUPE_E_INVALID, call, option,
            "must have 1 to 255 bytes", "%.20s", name);
    }
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || name[0] == '$') {
        return trp_refuse(TROUPE_E_INVALID, call, option,
            "must not be \".\" or \"..\" or begin with '$'", "%.20s", name);
    }
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)name[i];

        if (c < 0x20 || c == 0x7f || c == '/' || c == '\\') {
            return trp_refuse(TROUPE_E_INVALID, call, option,
                "must have no '/', '\\' or control character", "%.20s", name);
        }
    }
    return TROUPE_OK;
}

static troupe_status
check_type(const troupe_actor_type *type, const char *call)
{
    if (type == NULL) {
        return trp_refuse(
            TROUPE_E_INVALID, call, "type", "must not be NULL", "NULL");
    }
    if (type->size != sizeof *type) {
        troupe_actor_type copy;
        troupe_status status = trp_options_copy(&copy, sizeof copy, type, call);

        if (status != TROUPE_OK) {
            return status;
        }
        if (type->size < sizeof *type) {
            return trp_refuse(TROUPE_E_INVALID, call, "type.size",
                "must be set with TROUPE_OPTIONS()", "%zu", type->size);
        }
    }
    if (type->receive == NULL) {
        return trp_refuse(
            TROUPE_E_INVALID, call, "type.receive", "must not be NULL", "NULL");
    }
    if (type->name == NULL) {
        return trp_refuse(
            TROUPE_E_INVALID, call, "type.name", "must not be NULL", "NULL");
    }
    if (type->state_bytes > STATE_BYTES_MAX) {
        return trp_refuse(TROUPE_E_INVALID, call, "type.state_bytes",
            "must be at most 1 GiB", "%zu", type->state_bytes);
    }
    return TROUPE_OK;
}

static troupe_status
take_options(struct trp_birth_options *birth, const troupe_spawn_options *given,
    bool are_defaults, const char *call)
{
    troupe_spawn_options options;
    troupe_status status;

    status = trp_options_copy(&options, sizeof options, given, call);
    if (status != TROUPE_OK) {
        return status;
    }
    if (options.throughput > 65536) {
        return trp_refuse(TROUPE_E_INVALID, call, "throughput",
            "must be between 1 and 65536", "%u", options.throughput);
    }
    if (options.throughput != 0) {
        birth->throughput = options.throughput;
    }
    if (options.stash_capacity != 0) {
        birth->stash_capacity = options.stash_capacity;
    }
    if (options.mailbox != NULL) {
        birth->mailbox = options.mailbox;
    }
    if (options.throttle != NULL) {
        birth->throttle = options.throttle;
    }
    if (options.children != NULL) {
        birth->children = options.children;
    }
    if (options.own != NULL) {
        birth->own = options.own;
    }
    if ((options.flags & ~(uint32_t)ACTOR_FLAGS) != 0) {
        return trp_refuse(TROUPE_E_INVALID, call, "flags",
            "must be TROUPE_ACTOR_*", "0x%x", (unsigned)options.flags);
    }
    if (options.reserved != 0) {
        return trp_refuse(TROUPE_E_INVALID, call, "reserved", "must be 0", "%u",
            (unsigned)options.reserved);
    }
    birth->flags |= options.flags;
    if (are_defaults) {
        return TROUPE_OK;
    }
    if ((options.arg == NULL) != (options.arg_bytes == 0)) {
        return trp_refuse(TROUPE_E_INVALID, call, "arg_bytes",
            "and arg must be given together", "%zu", options.arg_bytes);
    }
    if (options.arg_bytes > STATE_BYTES_MAX) {
        return trp_refuse(TROUPE_E_INVALID, call, "arg_bytes",
            "must be at most 1 GiB", "%zu", options.arg_bytes);
    }
    birth->name = options.name;
    birth->arg = options.arg;
    birth->arg_bytes = options.arg_bytes;
    return options.name != NULL
               ? trp_spawn_check_name(options.name, "name", call)
               : TROUPE_OK;
}

/* Complete copies of what the options point to. */
struct parts {
    troupe_mailbox_options mailbox;
    troupe_throttle_options throttle;
    troupe_supervision children, own;
    troupe_backoff children_pause, own_pause;
};

TRP_COLD static troupe_status
check_parts(
    struct trp_birth_options *birth, struct parts *parts, const char *call)
{
    troupe_status status = TROUPE_OK;

    if (birth->mailbox != NULL) {
        status =
            trp_mailbox_options_check(&parts->mailbox, birth->mailbox, call);
        birth->mailbox = &parts->mailbox;
    }
    if (status == TROUPE_OK && birth->throttle != NULL) {
        status = trp_throttle_check(&parts->throttle, birth->throttle, call);
        birth->throttle = &parts->throttle;
    }
    if (status == TROUPE_OK && birth->children != NULL) {
        status = trp_supervision_check(
            &parts->children, &parts->children_pause, birth->children, call);
        birth->children = &parts->children;
    }
    if (status == TROUPE_OK && birth->own != NULL) {
        status = trp_supervision_check(
            &parts->own, &parts->own_pause, birth->own, call);
        birth->own = &parts->own;
    }
    return status;
}

/* All that is given at birth; `birth` may point into `parts`. */
static troupe_status
take_all(struct trp_birth_options *birth, struct parts *parts,
    const troupe_actor_type *type, const troupe_spawn_options *options,
    const char *call)
{
    troupe_status status = TROUPE_OK;

    if (type->defaults != NULL) {
        status = take_options(birth, type->defaults, true, call);
    }
    if (status == TROUPE_OK && options != NULL) {
        status = take_options(birth, options, false, call);
    }
    if (status == TROUPE_OK &&
        TRP_UNLIKELY(birth->mailbox != NULL || birth->throttle != NULL ||
                     birth->children != NULL || birth->own != NULL)) {
        status = check_parts(birth, parts, call);
    }
    birth->has_rules = birth->mailbox != NULL || birth->throttle != NULL ||
                       birth->stash_capacity != 0;
    return status;
}

troupe_status
trp_spawn_check(const troupe_actor_type *type,
    const troupe_spawn_options *options, const char *call)
{
    struct trp_birth_options chosen = {0};
    struct parts parts;
    troupe_status status = check_type(type, call);

    return status == TROUPE_OK ? take_all(&chosen, &parts, type, options, call)
                               : status;
}

/* What went wrong below, for the user. */
TRP_COLD static troupe_status
refuse_birth(const struct trp_core *core, troupe_status status,
    const char *call, const struct trp_birth *birth)
{
    if (status == TROUPE_E_EXISTS) {
        trp_refuse(status, call, "name", "is taken by a sibling", "%.20s",
            birth->options->name);
    } else if (status == TROUPE_E_FAILED) {
        trp_refuse(status, call, "mailbox.custom", "did not open", "%s",
            birth->options->mailbox->custom->name);
    } else if (status == TROUPE_E_LIMIT) {
        trp_refuse(status, call, "TROUPE_MAX_ACTORS", "are alive already", "%u",
            core->cells.class[0].end - 1);
    }
    return status;
}

TRP_INLINE troupe_status
give_birth(struct trp_core *core, troupe_ref parent, const char *call,
    const struct trp_birth *birth, troupe_ref *ref)
{
    troupe_status status;

    if (TRP_UNLIKELY(ref == NULL)) {
        return trp_refuse(
            TROUPE_E_INVALID, call, "result", "must not be NULL", "NULL");
    }
    if (trp_load_acquire(&core->closing) != 0) { /* pairs: system.closing */
        return TROUPE_E_CLOSED;
    }
    status = trp_cell_create(core, trp_local_here(core), parent, birth, ref);
    return TRP_LIKELY(status == TROUPE_OK)
               ? TROUPE_OK
               : refuse_birth(core, status, call, birth);
}

__attribute__((noinline)) static troupe_status
spawn_with_options(struct trp_core *core, troupe_ref parent, const char *call,
    const troupe_actor_type *type, const troupe_spawn_options *options,
    troupe_ref *ref)
{
    struct trp_birth_options chosen = {0};
    const struct trp_birth birth = {
        .type = type, .kind = TRP_KIND_ACTOR, .options = &chosen};
    struct parts parts;
    troupe_status status = take_all(&chosen, &parts, type, options, call);

    return status == TROUPE_OK ? give_birth(core, parent, call, &birth, ref)
                               : status;
}

/* Most have a type and nothing else. */
TRP_INLINE troupe_status
spawn(struct trp_core *core, troupe_ref parent, const char *call,
    const troupe_actor_type *type, const troupe_spawn_options *options,
    troupe_ref *ref)
{
    const struct trp_birth plain = {.type = type, .kind = TRP_KIND_ACTOR};
    troupe_status status = check_type(type, call);

    if (TRP_UNLIKELY(status != TROUPE_OK)) {
        return status;
    }
    return options == NULL && type->defaults == NULL
               ? give_birth(core, parent, call, &plain, ref)
               : spawn_with_options(core, parent, call, type, options, ref);
}

TRP_INLINE troupe_status
spawn_below(troupe_self *self, const char *call, const troupe_actor_type *type,
    const troupe_spawn_options *options, troupe_ref *child)
{
    troupe_status status;

    if (self == NULL) {
        return trp_refuse(
            TROUPE_E_INVALID, call, "self", "must not be NULL", "NULL");
    }
    status = spawn(self->core, self->ref, call, type, options, child);
    if (status == TROUPE_E_STATE) {
        trp_refuse(status, call, "self", "is stopping", "%s", type->name);
    }
    return status;
}

static troupe_status
spawn_on_top(troupe_system *system, const char *call,
    const troupe_actor_type *type, const troupe_spawn_options *options,
    troupe_ref *actor)
{
    troupe_status status = trp_system_check(system, call);

    if (status != TROUPE_OK) {
        return status;
    }
    status =
        spawn(&system->core, system->core.user, call, type, options, actor);
    /* /user refuses children only once the system is closing. */
    return status == TROUPE_E_STATE ? TROUPE_E_CLOSED : status;
}

troupe_status
troupe_spawn(troupe_self *self, const troupe_actor_type *type,
    const troupe_spawn_options *options, troupe_ref *child)
{
    return spawn_below(self, "troupe_spawn", type, options, child);
}

troupe_status
troupe_system_spawn(troupe_system *system, const troupe_actor_type *type,
    const troupe_spawn_options *options, troupe_ref *actor)
{
    return spawn_on_top(system, "troupe_system_spawn", type, options, actor);
}

troupe_status
trp_spawn(struct trp_core *core, troupe_self *self, const char *call,
    const troupe_actor_type *type, const troupe_spawn_options *options,
    troupe_ref *actor)
{
    return self != NULL
               ? spawn_below(self, call, type, options, actor)
               : spawn_on_top(trp_system_of(core), call, type, options, actor);
}

troupe_status
trp_spawn_counted(troupe_self *self, const troupe_actor_type *type,
    const troupe_spawn_options *options, TRP_ATOMIC(uint32_t) * *counter,
    bool counts_handled, troupe_ref *child)
{
    static const char call[] = "troupe_spawn";
    struct trp_birth_options chosen = {.counts_handled = counts_handled};
    const struct trp_birth birth = {
        .type = type, .kind = TRP_KIND_ACTOR, .options = &chosen};
    struct parts parts;
    troupe_status status = take_all(&chosen, &parts, type, options, call);

    if (status != TROUPE_OK) {
        return status;
    }
    if (chosen.mailbox != NULL) {
        *counter = NULL;
    }
    chosen.counter = *counter;
    chosen.has_rules |= *counter != NULL;
    status = give_birth(self->core, self->ref, call, &birth, child);
    return status != TROUPE_E_STATE ? status
                                    : trp_refuse(status, call, "self",
                                          "is stopping", "%s", type->name);
}

troupe_status
trp_spawn_router(struct trp_core *core, troupe_self *self, const char *call,
    const troupe_actor_type *type, const troupe_spawn_options *options,
    troupe_ref *router)
{
    struct trp_birth_options chosen = {.is_router = true};
    const struct trp_birth birth = {
        .type = type, .kind = TRP_KIND_ACTOR, .options = &chosen};
    struct parts parts;
    troupe_status status = take_all(&chosen, &parts, type, options, call);

    chosen.has_rules = true;
    if (status == TROUPE_OK) {
        status = give_birth(
            core, self != NULL ? self->ref : core->user, call, &birth, router);
    }
    if (status == TROUPE_E_STATE) { /* the parent is stopping */
        return self != NULL ? trp_refuse(status, call, "self", "is stopping",
                                  "%s", type->name)
                            : TROUPE_E_CLOSED;
    }
    return status;
}
