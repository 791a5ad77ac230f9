#!/usr/bin/env python3
"""The index of docs/decisions lists its pages, each by number and title.

    decisions.py [ROOT] [--write]      --write renews the index
"""
import re
import sys

WRITE = "--write" in sys.argv
sys.argv = [arg for arg in sys.argv if arg != "--write"]

from common import finish, root  # noqa: E402  reads sys.argv

INDEX = re.compile(r"(<!-- index:begin -->\n)(.*?)(<!-- index:end -->)", re.S)

top = root()
faults, lines = [], []
folder = top / "docs" / "decisions"
pages = sorted(page for page in folder.glob("*.md")
               if page.name != "README.md")
for number, page in enumerate(pages, 1):
    title = page.read_text().splitlines()[0].removeprefix("# ")
    if not re.fullmatch(rf"{number:04}-[a-z0-9-]+\.md", page.name):
        faults.append(f"{page.name}: expected {number:04}-short-name.md")
    if not title.startswith(page.name[:4] + ": "):
        faults.append(f"{page.name}: the title does not begin with "
                      f"'# {page.name[:4]}: '")
    lines.append(f"- [{title}]({page.name})\n")
readme = folder / "README.md"
text = readme.read_text()
body = "\n" + "".join(lines) + "\n" if lines else ""
wanted, count = INDEX.subn(lambda m: m[1] + body + m[3], text)
if count != 1:
    faults.append("docs/decisions/README.md: no index:begin and index:end")
elif WRITE:
    readme.write_text(wanted)
elif wanted != text:
    faults.append("docs/decisions/README.md: stale index; run "
                  "tools/check/decisions.py --write")
finish(faults, f"{len(pages)} decisions")
