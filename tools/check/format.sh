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
files=${folders:+$(find $folders -name '*.[ch]' | sort)}
if [ -z "$files" ]; then
    echo "$top: no sources"
    exit 1
fi
# shellcheck disable=SC2086
if ! faults=$(printf '%s\n' $files |
    xargs clang-format-14 --dry-run -Werror 2>&1); then
    echo "$faults" | sed -n 's/^\([^: ]*\):[0-9]*:.*/\1/p' | sort -u |
        sed 's/$/: clang-format-14 would change it/'
    exit 1
fi
echo "ok: $(echo "$files" | wc -l) files"
