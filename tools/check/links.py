#!/usr/bin/env python3
"""Relative links in Markdown lead to a file, and to its heading if they say.

A page that is named anywhere else, in code or in a comment, is in the tree.
"""
import re
import urllib.parse

from common import finish, root

FENCE = re.compile(r"^( *)(```|~~~).*?^\1\2", re.M | re.S)
CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"\]\(<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\)|"
                  r"^\[[^\]]+\]:\s+(\S+)", re.M)
HEADING = re.compile(r"^#{1,6} +(.*?) *#*$", re.M)
NAME = re.compile(r"[\w-]+\.md\b(?![\w*(])")
TEXTS = {".c", ".h", ".cc", ".md", ".py", ".sh", ".build", ".def", ".txt", ".scd"}
SKIPPED = re.compile(r"(^|/)(build[^/]*|out|\.git|subprojects|target)(/|$)")


def without_code(text):
    return CODE.sub("", FENCE.sub("", text))


def without_links(text):
    return LINK.sub("", FENCE.sub("", text))


def anchors(path):
    """What GitHub makes of the headings: lower case, dashes, no punctuation."""
    found = set()
    for heading in HEADING.findall(FENCE.sub("", path.read_text())):
        text = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        count = 1
        name = text
        while name in found:
            name = f"{text}-{count}"
            count += 1
        found.add(name)
    return found


top = root()
faults, count = [], 0
pages = sorted(path for path in top.rglob("*.md")
               if not SKIPPED.search(path.relative_to(top).as_posix()))
for page in pages:
    where = page.relative_to(top).as_posix()
    for link in LINK.findall(without_code(page.read_text())):
        link = urllib.parse.unquote(link[0] or link[1])
        if re.match(r"[a-z]+:", link):
            continue  # another site; checked by nobody
        count += 1
        name, _, anchor = link.partition("#")
        target = page if not name else (
            top / name.lstrip("/") if name[0] == "/" else page.parent / name)
        if not target.exists():
            faults.append(f"{where}: {link} does not exist")
        elif anchor and target.suffix == ".md" \
                and anchor not in anchors(target):
            faults.append(f"{where}: {link}: no such heading")
names = {page.name for page in pages}
for path in sorted(top.rglob("*")):
    where = path.relative_to(top).as_posix()
    if path.suffix not in TEXTS or SKIPPED.search(where) \
            or where.startswith("tools/check/") or not path.is_file():
        continue  # the checks name pages that are planted
    text = path.read_text()
    for name in NAME.findall(without_links(text) if path in pages else text):
        if name not in names and not name.startswith("NNNN-"):
            faults.append(f"{where}: {name} is not in the tree")
if not pages:
    faults.append(f"{top}: no Markdown")
finish(faults, f"{count} links in {len(pages)} pages")
