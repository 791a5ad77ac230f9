#!/usr/bin/env python3
"""Every planted fault still fits its source, and a model is told to find it.

What test/model/plant.py replaces must stand in the file once, and must change
something. Whatever lies in test/model/planted has one entry in model_plants of
test/model/meson.build, which names the same file: else it would not be built
anew, or not at all.
"""
import pathlib
import re
import sys

from common import finish, root

sys.path.insert(
    0, str(pathlib.Path(__file__).resolve().parents[2] / "test" / "model"))

import plant  # noqa: E402  test/model/plant.py: what the models' build runs

TABLE = re.compile(r"^model_plants = \{\n(.*?)^\}", re.S | re.M)
ENTRY = re.compile(r"^  '(\w+)': \['(\w+)', '([^']+)'", re.M)


def tokens(text):
    return re.findall(r"\w+|[^\w\s]", text)


def faults_of(path, named):
    """What is wrong with one plant; `named` is its file in meson.build."""
    name, edits = plant.parse(path)
    if name is None or not edits:
        return ["no file, or nothing to change"]
    faults = []
    if named is None:
        faults.append("not in model_plants of test/model/meson.build")
    elif named != name:
        faults.append(f"changes {name}, but model_plants says {named}")
    for number, (find, replace) in enumerate(edits, 1):
        if not tokens(find):
            faults.append(f"find {number} is empty")
        elif tokens(find) == tokens(replace):
            faults.append(f"replace {number} changes nothing")
    source = top / name
    if not source.is_file():
        faults.append(f"{name} is not there")
    elif not faults:
        _, stale = plant.edited(source.read_text(), edits)
        faults += [f"{stale} in {name}"] if stale else []
    return faults


top = root()
folder = top / "test" / "model"
build = folder / "meson.build"
table = TABLE.search(build.read_text()) if build.is_file() else None
bad = [] if table else [f"{build}: no model_plants"]
entries = ENTRY.findall(table[1]) if table else []
named = {}
for key, _, source in entries:
    if key in named:
        bad.append(f"{key}: twice in model_plants")
    named[key] = source
found = sorted((folder / "planted").glob("*.plant"))
for path in found:
    bad += [f"{path.name}: {fault}"
            for fault in faults_of(path, named.pop(path.stem, None))]
bad += [f"{key}: in model_plants, but there is no {key}.plant"
        for key in named]
if not found:
    bad.append(f"{folder}: no planted faults")
finish(bad, f"{len(found)} planted faults match their sources")
