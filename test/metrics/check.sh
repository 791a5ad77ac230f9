#!/bin/sh
# What a real scrape looks like to those who read it.
#   check.sh promtool|json BUSY
case $1 in
promtool)
    if ! command -v promtool >/dev/null; then
        echo "skipped: no promtool (package prometheus)"
        exit 77
    fi
    text=$("$2") || exit 1
    case $text in
    *'actor_mailbox_size{'*'own_seconds_bucket{'*) ;;
    *)
        echo "the text has no deep mailbox, or no series of its own"
        exit 1
        ;;
    esac
    printf '%s\n' "$text" | promtool check metrics
    ;;
json)
    "$2" json | python3 -c '
import json, sys
families = json.load(sys.stdin)["metrics"]
names = [family["name"] for family in families]
assert len(names) == len(set(names)) and "own_seconds" in names, names
for family in families:
    for series in family["series"]:
        assert ("buckets" in series) == (family["kind"] == "histogram"), family
'
    ;;
*)
    echo "usage: check.sh promtool|json BUSY"
    exit 2
    ;;
esac
