// SPDX-License-Identifier: MIT
// A C++17 user: classes as actors, RAII for the system and its port.
#include <troupe/troupe.h>

#include <poll.h>

#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <memory>
#include <new>

namespace
{

enum : troupe_tag { TAG_PUSH = 1, TAG_SUM, TAG_TOTAL };

struct push {
    int64_t value;
};

TROUPE_MSG_TYPE(push_type, push, TAG_PUSH);
TROUPE_MSG_TYPE_EMPTY(sum_type, TAG_SUM);
TROUPE_MSG_TYPE(total_type, push, TAG_TOTAL);

struct closer {
    void operator()(troupe_system *system) const noexcept
    {
        troupe_system_destroy(system);
    }
    void operator()(troupe_port *port) const noexcept
    {
        troupe_port_close(port);
    }
};
using system_ptr = std::unique_ptr<troupe_system, closer>;
using port_ptr = std::unique_ptr<troupe_port, closer>;

struct summer {
    int64_t total = 0;

    troupe_verdict receive(troupe_self *self, const troupe_msg *msg) noexcept
    {
        switch (troupe_msg_tag(msg)) {
        case TAG_PUSH:
            total += troupe_payload(msg, push)->value;
            return TROUPE_CONTINUE;
        case TAG_SUM: {
            const push answer{total};
            troupe_reply(self, &total_type, &answer);
            return TROUPE_CONTINUE;
        }
        default:
            return TROUPE_UNHANDLED;
        }
    }
};

// Any class with a noexcept receive(self, msg) becomes an actor type.
template <class Actor>
troupe_actor_type
actor_type(const char *name) noexcept
{
    troupe_actor_type type = TROUPE_INIT(troupe_actor_type);

    static_assert(alignof(Actor) <= 16);
    type.name = name;
    type.state_bytes = sizeof(Actor);
    type.receive = [](troupe_self *self, void *state,
                       const troupe_msg *msg) noexcept {
        return static_cast<Actor *>(state)->receive(self, msg);
    };
    type.start = [](troupe_self *, void *state, const void *) noexcept {
        new (state) Actor();
        return TROUPE_OK;
    };
    type.stop = [](troupe_self *, void *state, const troupe_exit *) noexcept {
        static_cast<Actor *>(state)->~Actor();
    };
    return type;
}

const troupe_msg *
wait_for(troupe_port *port)
{
    pollfd fd{troupe_port_fd(port), POLLIN, 0};
    const troupe_msg *msg = nullptr;

    while (
        (msg = troupe_port_next(port)) == nullptr && poll(&fd, 1, 10000) > 0) {
    }
    return msg;
}

} // namespace

int
main()
{
    static const troupe_actor_type type = actor_type<summer>("summer");
    auto options = TROUPE_INIT(troupe_system_options);
    troupe_system *raw = nullptr;
    troupe_port *raw_port = nullptr;

    options.workers = 2;
    if (troupe_system_create(&options, &raw) != TROUPE_OK) {
        return 1;
    }
    const system_ptr system(raw);
    if (troupe_port_open(raw, "main", &raw_port) != TROUPE_OK) {
        return 1;
    }
    const port_ptr port(raw_port); // goes before the system, as it must
    troupe_ref actor = TROUPE_NONE;
    if (troupe_system_spawn(raw, &type, nullptr, &actor) != TROUPE_OK) {
        return 1;
    }
    for (const push number : {push{3}, push{4}}) {
        troupe_port_tell(raw_port, actor, &push_type, &number);
    }
    if (troupe_port_send(raw_port, actor, &sum_type, nullptr) != TROUPE_OK) {
        return 1;
    }
    const troupe_msg *msg = wait_for(raw_port);
    if (msg == nullptr || !troupe_msg_is(msg, &total_type)) {
        return 1;
    }
    std::printf(
        "%lld\n", static_cast<long long>(troupe_payload(msg, push)->value));
    return 0;
}
