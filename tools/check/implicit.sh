#!/bin/sh
# No atomic variable is read or written without an order: `count++` on one is
# sequentially consistent by silence, and pairs.py cannot see it. clang can.
#   implicit.sh [ROOT]
top=${1:-$(dirname "$0")/../..}
cd "$top" || exit 1
clang=$(command -v clang-14 || command -v clang)
if [ -z "$clang" ]; then
    echo "skipped: no clang"
    exit 77
fi
count=0
bad=0
for file in $(find lib -name '*.c' | sort); do
    count=$((count + 1))
    "$clang" -std=gnu11 -D_GNU_SOURCE -fsyntax-only -Wno-everything \
        -Werror=atomic-implicit-seq-cst -Ilib -Iinclude "$file" || bad=1
done
if [ "$count" -eq 0 ]; then
    echo "$top: no sources below lib/"
    exit 1
fi
[ "$bad" -eq 0 ] && echo "ok: $count files"
exit $bad
