#!/bin/sh
# SPDX-License-Identifier: MIT
# System calls between two marks of syscalls_probe, in all threads.
#   syscalls.sh path/to/syscalls_probe
set -eu
probe=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if ! strace -f -o /dev/null true 2>/dev/null; then
    echo "strace is missing or may not trace"
    exit 77
fi

failed=0

# between NAME: what was called there, without the marks.
between() {
    strace -f -o "$work/$1" "$probe" "$1"
    awk '/"mark end"/ { on = 0 } on { print } /"mark begin"/ { on = 1; n++ }
        END { if (n == 0) print "no mark was seen" }' \
        "$work/$1" >"$work/$1.between"
}

# expect NAME PATTERN COUNT: lines there that begin such a call.
expect() {
    found=$(grep -c -E "$2" "$work/$1.between" || true)
    echo "$1: $found of '$2', expected $3"
    if [ "$found" -ne "$3" ]; then
        head -n 40 "$work/$1.between"
        failed=1
    fi
}

between idle
# All there is: the poll with which the program itself waits.
expect idle '^' 1
expect idle 'poll\(NULL, 0, 3000\)' 1

between timers
# The same with timers that are far away.
expect timers '^' 1
expect timers 'poll\(NULL, 0, 3000\)' 1

between post
expect post 'FUTEX_WAKE' 20
expect post 'no mark' 0

between pingpong
expect pingpong 'futex\(' 0
expect pingpong 'no mark' 0

between driven
# A token in and out for each post; the timer stays armed as it is.
expect driven 'write\(' 20
expect driven 'read\(' 20
expect driven 'timerfd|epoll|no mark' 0

exit $failed
