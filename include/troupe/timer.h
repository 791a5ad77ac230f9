/* SPDX-License-Identifier: MIT */
#ifndef TROUPE_TIMER_H
#define TROUPE_TIMER_H

#include <troupe/send.h>

TROUPE_BEGIN_DECLS

/*
 * Timers of an actor: messages to itself under a key of your choosing. Starting
 * a key replaces it, cancel is exact (the message is not handled even if it is
 * queued), all end at a stop or restart. Never early; a delay of 0 is in line
 * at once; delays saturate. A late periodic timer fires once, not once per
 * missed period. The sender is TROUPE_NONE.
 *
 *   once         after delay_ns
 *   fixed_delay  delay_ns after the previous one was handled
 *   fixed_rate   at start + n * period_ns
 *
 * The message takes its place in line, and no rule of the mailbox applies to
 * it, for of each key at most one waits to be handled: it may exceed the
 * capacity, is never dropped and costs no token of a throttle. Once it was
 * stashed, taken or forwarded it is like any other, for the rules of a mailbox
 * too, and a cancel does not reach it any more.
 *
 * A type with `drop` can be sent once only: its payload cannot be repeated.
 * E_INVALID: that, a bad message, or a delay or period of 0 between two.
 * E_STATE: the actor is stopping or about to restart. After a refusal what was
 * there goes on, and what the payload owns is the caller's.
 */
TROUPE_API TROUPE_NODISCARD troupe_status troupe_timer_once(troupe_self *self,
    uint64_t key, const troupe_msg_type *type, const void *payload,
    uint64_t delay_ns);
TROUPE_API TROUPE_NODISCARD troupe_status troupe_timer_fixed_delay(
    troupe_self *self, uint64_t key, const troupe_msg_type *type,
    const void *payload, uint64_t first_ns, uint64_t delay_ns);
TROUPE_API TROUPE_NODISCARD troupe_status troupe_timer_fixed_rate(
    troupe_self *self, uint64_t key, const troupe_msg_type *type,
    const void *payload, uint64_t first_ns, uint64_t period_ns);

/*
 * Whether it was still going to fire: a periodic timer in its own message is, a
 * once is not.
 */
TROUPE_API bool troupe_timer_cancel(troupe_self *self, uint64_t key);
TROUPE_API bool troupe_timer_is_active(const troupe_self *self, uint64_t key);
/* The receive timeout is no timer of a key and stays. */
TROUPE_API void troupe_timer_cancel_all(troupe_self *self);

/*
 * TROUPE_TAG_IDLE, without payload, when no message was handled for this long;
 * again after each further silence. It takes its place in line: if a message is
 * handled before, it is void. TROUPE_NEVER switches it off, as does a restart.
 */
#define TROUPE_TAG_IDLE UINT32_C(0xffffff03)
#define TROUPE_NEVER UINT64_C(0)
TROUPE_API TROUPE_NODISCARD troupe_status troupe_receive_timeout(
    troupe_self *self, uint64_t silence_ns);

/*
 * To somebody else, not bound to the life of the actor that started it; a
 * refusal then is a dead letter. It is counted when it is due; a system that
 * stops does not wait for it. Values; cancel on any thread, true if the message
 * will not be sent. `delayed` may be NULL. What the payload owns is the
 * library's if and only if TROUPE_OK.
 */
typedef struct troupe_delayed { /* frozen */
    uint64_t id;                /* 0 = none */
} troupe_delayed;

TROUPE_API TROUPE_NODISCARD troupe_status troupe_send_after(troupe_self *self,
    troupe_ref to, const troupe_msg_type *type, const void *payload,
    uint64_t delay_ns, troupe_delayed *delayed);
TROUPE_API TROUPE_NODISCARD troupe_status troupe_post_after(
    troupe_system *system, troupe_ref to, const troupe_msg_type *type,
    const void *payload, uint64_t delay_ns, troupe_delayed *delayed);
TROUPE_API bool troupe_delayed_cancel(
    troupe_system *system, troupe_delayed delayed);

/*
 * Nanoseconds since the system was created, on the monotonic clock, or on the
 * virtual one of a simulation. Any thread.
 */
TROUPE_API uint64_t troupe_now_ns(const troupe_system *system);

TROUPE_END_DECLS

#endif /* TROUPE_TIMER_H */
