#!/usr/bin/env python3
"""Each tunable is documented: docs/tuning.md and troupe(7) hold the tables that
tools/gen-tuning makes of lib/system/tunables.def, and a public header names the
variable beside the option it belongs to."""
import pathlib
import re
import subprocess
import sys

from common import finish, root, sources

top = root()
generator = pathlib.Path(__file__).resolve().parents[1] / "gen-tuning"


def generate(what):
    return subprocess.run(
        [sys.executable, generator, "--root", top, what],
        capture_output=True, text=True)


faults = []
table = generate("markdown")
names = re.findall(r"^\| `(\w+)`", table.stdout, re.M)
if table.returncode:
    faults.append(table.stderr.strip().splitlines()[-1])
else:
    current = generate("check")
    if current.returncode:
        faults.append((current.stdout or current.stderr).strip())
headers = "\n".join(path.read_text()
                    for path in sources(top, "include", suffixes=(".h",)))
faults += [f"{name} is in no public header" for name in names
           if not re.search(rf"\b{name}\b", headers)]
faults += [f"{name} occurs twice in tunables.def"
           for name in sorted(set(names)) if names.count(name) > 1]
finish(faults, f"{len(names)} tunables")
