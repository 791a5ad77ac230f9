#!/usr/bin/env python3
"""Programs in Markdown are the files they say they are.

    <!-- program: examples/hello.c -->
    ```c
    ...
    ```

    programs.py [ROOT] [--write]      --write copies the files into the pages
"""
import re
import sys

WRITE = "--write" in sys.argv
sys.argv = [arg for arg in sys.argv if arg != "--write"]

from common import finish, root  # noqa: E402  reads sys.argv

BLOCK = re.compile(r"(<!-- program: (\S+) -->\n```\w*\n)(.*?)(^```$)",
                   re.S | re.M)
SPDX = "/* SPDX-License-Identifier: MIT */\n"

top = root()
faults, count = [], 0
pages = [*top.glob("*.md"), *sorted((top / "docs").rglob("*.md"))]
for page in pages:
    text = page.read_text()

    def replace(match):
        global count
        count += 1
        path = top / match[2]
        where = f"{page.relative_to(top)}: {match[2]}"
        if not path.exists():
            faults.append(f"{where} does not exist")
            return match[0]
        wanted = path.read_text().removeprefix(SPDX)
        if wanted != match[3] and not WRITE:
            faults.append(f"{where} differs; run tools/check/programs.py "
                          "--write")
        return match[1] + wanted + match[4]

    wanted = BLOCK.sub(replace, text)
    if WRITE and wanted != text:
        page.write_text(wanted)
        print(f"{page.relative_to(top)}: written")
if not count:
    faults.append(f"{top}: no program in any page")
finish(faults, f"{count} programs in Markdown")
