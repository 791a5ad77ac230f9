#!/bin/sh
# Layout is what clang-format 14 makes of it, in every .c and .h of the tree.
#   format.sh [ROOT]
top=${1:-$(dirname "$0")/../..}
cd "$top" || exit 1
if ! command -v clang-format-14 >/dev/null; then
    echo "skipped: no clang-format-14"
    exit 77
fi
folders=
for folder in lib include bench test examples; do
    [ -d "$folder" ] && folders="$folders $folder"
done
# shellcheck disable=SC2086  # a list of names without blanks
count=$(find $folders -name '*.[ch]' | wc -l)
if [ "$count" -eq 0 ]; then
    echo "$top: no sources"
    exit 1
fi
# shellcheck disable=SC2086
find $folders -name '*.[ch]' -print0 |
    xargs -0 clang-format-14 --dry-run -Werror || exit 1
echo "ok: $count files"
