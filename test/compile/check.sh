#!/bin/sh
# SPDX-License-Identifier: MIT
# check.sh headers|misuse|programs COMPILER SOURCE: prints TAP, one line per
# compilation. headers: each public header alone, and once more. misuse: what
# must not compile, with the message of gcc that the first line of each program
# names. programs: what was written against the interface before it was there.
set -u
what=$1
compiler=$2
source=$3
here=$source/test/compile
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
export LC_ALL=C

if ! command -v "$compiler" >/dev/null; then
    echo "TAP version 13"
    echo "1..0 # SKIP there is no $compiler"
    exit 0
fi
warnings="-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wundef -Werror"
case $compiler in
*++*)
    suffix=cc
    flags="-std=c++17 -Wold-style-cast $warnings"
    ;;
*)
    suffix=c
    flags="-std=c11 -Wstrict-prototypes -Wmissing-prototypes $warnings"
    ;;
esac

echo "TAP version 13"
count=0
result() { # status name; the log of what has failed
    count=$((count + 1))
    if [ "$1" = 0 ]; then
        echo "ok $count - $2"
    else
        echo "not ok $count - $2"
        sed 's/^/# /' "$work/log"
    fi
}

compile() { # file; silently
    # shellcheck disable=SC2086 # lists of words
    "$compiler" $flags -I"$source/include" -c -o "$work/o" "$1" \
        >"$work/log" 2>&1 && [ ! -s "$work/log" ]
}

refuses() { # file
    message=$(sed -n '1s/^.. error: \(.*\) ..$/\1/p' "$1")
    if [ -z "$message" ]; then
        echo "the first line names no message" >"$work/log"
        return 1
    fi
    if compile "$1"; then
        echo "it compiles" >"$work/log"
        return 1
    fi
    grep -qF "error: " "$work/log" && grep -qF -- "$message" "$work/log"
}

case $what in
headers)
    for path in "$source"/include/troupe/*.h; do
        name=troupe/$(basename "$path")
        # An empty translation unit is pedantic's business.
        printf '#include <%s>\n#include <%s>\ntypedef int not_empty;\n' \
            "$name" "$name" >"$work/alone.$suffix"
        compile "$work/alone.$suffix"
        result $? "$name"
    done
    compile "$here/control.$suffix"
    result $? "control.$suffix"
    ;;
misuse)
    compile "$here/control.$suffix"
    result $? "control.$suffix"
    for path in "$here"/misuse/*."$suffix"; do
        refuses "$path"
        result $? "$(basename "$path")"
    done
    ;;
programs)
    flags="$flags -D_GNU_SOURCE" # a program may use what its system has
    for path in "$here"/programs/*."$suffix"; do
        compile "$path"
        result $? "$(basename "$path")"
    done
    ;;
esac
echo "1..$count"
