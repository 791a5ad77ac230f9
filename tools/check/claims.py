#!/usr/bin/env python3
"""Each row of the tables in test/README.md names a test that there is.

The last column of a row has names in backquotes: `suite/name` of a Criterion
test, or the path below test/ of a program that must not compile or of a stress
test. A row that has none says for which later work it waits: "later: routers".
"""
import re

from common import finish, root, sources, split, without_directives

TEST = re.compile(r"^Test\(\s*(\w+),\s*(\w+)", re.M)
ROW = re.compile(r"^\|(.+)\|[ \t]*$", re.M)
RULE = re.compile(r"[-| :]+")
NAME = re.compile(r"`([^`]+)`")
LATER = re.compile(r"\blater: \w")

top = root()
page = top / "test" / "README.md"
tests = {f"{suite}/{name}" for path in sources(top, "test", suffixes=(".c",))
         for suite, name in TEST.findall(
             without_directives(split(path.read_text())[0]))}
faults, rows, names = [], 0, 0
text = page.read_text() if page.exists() else ""
columns = None  # of the table that we are in; its first row is no claim
for number, line in enumerate(text.splitlines(), 1):
    row = ROW.fullmatch(line)
    if row is None or RULE.fullmatch(row[1]):
        columns = columns if row else None
        continue
    cells = row[1].split("|")
    if columns is None:
        columns = len(cells)
        continue
    where = f"test/README.md:{number}"
    found = NAME.findall(cells[-1])
    rows += 1
    names += len(found)
    if len(cells) != columns:
        faults.append(f"{where}: {len(cells)} columns, not {columns}")
    if not found and not LATER.search(cells[-1]):
        faults.append(f"{where}: names no test")
    for name in found:
        if name not in tests and not (top / "test" / name).is_file():
            faults.append(f"{where}: there is no test {name}")
if rows == 0:
    faults.append(f"{page}: no rows of a table")
finish(faults, f"{rows} rows with {names} tests")
