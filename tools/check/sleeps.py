#!/usr/bin/env python3
"""Tests do not sleep; the number of calls that do may only fall.

The number stands in tools/check/sleeps.max. More calls below test/ than that
is a fault; so is a lower count, until the number is lowered to it: otherwise
the next sleep would find room. Wait for a condition with a deadline instead,
or use driven mode.
"""
import re

from common import finish, root, sources, split, without_directives

C = re.compile(r"\b(?:sleep|usleep|nanosleep|clock_nanosleep|thrd_sleep)\s*\(|"
               r"\bpoll\s*\(\s*NULL\b|"
               r"\bselect\s*\(\s*0\s*,\s*NULL\s*,\s*NULL\s*,\s*NULL\b")
SCRIPT = re.compile(r"^(?!\s*#).*?(?:\btime\.sleep\s*\(|(?:^|[;&|(]|\bdo\b|"
                    r"\bthen\b)\s*sleep\s+[\d.$\"])", re.M)

top = root()
limit = int((top / "tools" / "check" / "sleeps.max").read_text())
found = []
for path in sources(top, "test", suffixes=(".c", ".h", ".py", ".sh", ".cc")):
    text = path.read_text()
    script = path.suffix in (".py", ".sh")
    if not script:
        text = without_directives(split(text)[0])
    for match in (SCRIPT if script else C).finditer(text):
        line = text.count("\n", 0, match.end()) + 1
        found.append(f"  {path.relative_to(top)}:{line}")
faults = []
if len(found) > limit:
    faults = [f"{len(found)} sleeps in test/, at most {limit} allowed:", *found]
elif len(found) < limit:
    faults = [f"{len(found)} sleeps in test/: lower the {limit} in "
              "tools/check/sleeps.max"]
if not any((top / "test").rglob("*.c")):
    faults.append(f"{top}: no sources below test/")
finish(faults, f"{len(found)} sleeps in test/")
