#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Copies a source file with a fault that a model must find.

    plant.py PLANT ROOT OUTPUT

A plant is a text file: comment lines, the file, then edits.

    # Why this is wrong.
    file: lib/queue/ring.h
    find:
        text that occurs once, blanks and line breaks do not matter
    replace:
        other text

A text that is not found, or more than once, is an error: the plant is then
older than the source. The copy is a program that says so and fails, so that
one test fails and not the build of all others. tools/check/plants.py asks the
same of all plants without building anything.
"""
import pathlib
import re
import sys

KEY = re.compile(r"^(file|find|replace):(.*)$")


def parse(path):
    """The file's name and [find, replace] pairs."""
    name, edits, part = None, [], None
    for line in path.read_text().splitlines():
        match = KEY.match(line)
        if match and match[1] == "file":
            name, part = match[2].strip(), None
        elif match and match[1] == "find":
            edits.append([[], []])
            part = edits[-1][0]
        elif match:
            part = edits[-1][1]
        elif part is not None:
            part.append(line)
    return name, [["\n".join(lines) for lines in edit] for edit in edits]


def pattern(text):
    """Matches the same tokens, whatever stands between them."""
    tokens = re.findall(r"\w+|[^\w\s]", text)
    return re.compile(r"\s*".join(re.escape(token) for token in tokens))


def edited(text, edits):
    """(text with the edits, None), or (text, why an edit has no place)."""
    for number, (find, replace) in enumerate(edits, 1):
        found = len(pattern(find).findall(text))
        if found != 1:
            return text, f"find {number} stands {found} times"
        text = pattern(find).sub(lambda _: replace, text)
    return text, None


STALE = """
extern int puts(const char *);
extern void _exit(int);
__attribute__((constructor)) static void
say_plant_is_stale(void)
{
    puts("%s");
    _exit(1);
}
"""


def main():
    plant, root, output = (pathlib.Path(arg) for arg in sys.argv[1:])
    name, edits = parse(plant)
    if name is None or not edits:
        sys.exit(f"{plant}: no file, or nothing to change")
    source = root / name
    text, stale = edited(source.read_text(), edits)
    if stale:
        why = f"{plant.name}: {stale} in {name}"
        print(why, file=sys.stderr)
        text = source.read_text() + STALE % why
    output.write_text(f'#line 1 "{source}"\n{text}')


if __name__ == "__main__":
    main()
