#!/usr/bin/env python3
"""Each public function is explained in exactly one man page.

An entry is a line of docs/man/*.scd that begins with the bold name and its
parenthesis: `*troupe_send*()`. Mentions elsewhere do not count. Functions are
what include/troupe declares: exported, inline and function-like macros.
"""
import re

from common import finish, public_functions, root, sources

ENTRY = re.compile(r"^\*(troupe_\w+)\*\(", re.M)

top = root()
pages = {}
for path in sources(top, "docs/man", suffixes=(".scd",)):
    for name in ENTRY.findall(path.read_text()):
        pages.setdefault(name, []).append(path.name)
functions = public_functions(top)

faults = [f"{name} ({header}) is in no man page"
          for name, (header, _) in sorted(functions.items())
          if name not in pages]
faults += [f"{name} is in {len(found)} places: {', '.join(found)}"
           for name, found in sorted(pages.items()) if len(found) > 1]
faults += [f"{found[0]}: no header declares {name}"
           for name, found in sorted(pages.items()) if name not in functions]
if not functions:
    faults.append(f"{top}: no public function below include/")
finish(faults, f"{len(functions)} functions in "
       f"{len(set(sum(pages.values(), [])))} pages")
