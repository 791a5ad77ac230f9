#!/usr/bin/env python3
"""lib/ is a stack: a file includes its own folder and folders below it.

Also: the companions see public headers only (and testkit), ck and <stdatomic.h>
have one seam each, the data path has no #if, and a public header includes
public headers and the standard library only.
"""
import re

from common import finish, root, sources, split

STACK = ["base", "os", "queue", "sched", "actor", "system", "pattern"]
COMPANIONS = ["testkit"]  # libraries of their own, on top of the public API
SEAMS = {  # system header: the files that may include it
    r"ck_\w+\.h": {"base/cpu.h"},
    r"stdatomic\.h": {"base/atomic.h"},
}
DATA_PATH = {"actor/send.c", "actor/mailbox.h", "queue/ring.h",
             "sched/submit.c", "sched/submit.h", "sched/worker.c",
             "actor/turn.c"}
PUBLIC = re.compile(r"troupe/\w+\.h|std(bool|def|int)\.h")

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+(["<])([^">]+)[">]', re.M)
CONDITION = re.compile(r"^[ \t]*#[ \t]*(if|ifdef|ifndef|elif|else)\b(.*)", re.M)


def includes(text):
    return INCLUDE.findall(split(text, keep_strings=True)[0])


def own_include(layer, name):
    """What is wrong with #include "name" in a file of this layer, or None."""
    below = name.split("/")[0]
    if layer in COMPANIONS:
        return None if below == layer and ".." not in name else \
            f"{layer} uses the public API, not {name}"
    if "/" not in name or ".." in name or below not in STACK:
        return f'write "folder/file.h", not "{name}"'
    if STACK.index(below) > STACK.index(layer):
        return f"{layer} must not see {below} ({name})"
    return None


def conditions(text):
    """Preprocessor conditions other than the include guard."""
    code, _ = split(text)
    found = [(kind, rest.strip()) for kind, rest in CONDITION.findall(code)]
    if found and found[0][0] == "ifndef" and re.search(
            rf"#\s*define\s+{re.escape(found[0][1])}\s*$", code, re.M):
        found = found[1:]
    return found


def check_library(lib, bad):
    files = sources(lib.parent, "lib")
    for path in files:
        name = path.relative_to(lib).as_posix()
        layer = name.split("/")[0]
        text = path.read_text()
        if layer not in STACK + COMPANIONS:
            bad.append(f"lib/{name}: folder is not in the stack")
            continue
        for kind, header in includes(text):
            if kind == '"':
                wrong = own_include(layer, header)
                if wrong:
                    bad.append(f"lib/{name}: {wrong}")
                continue
            for seam, allowed in SEAMS.items():
                if re.fullmatch(seam, header) and name not in allowed:
                    bad.append(f"lib/{name}: <{header}> only in "
                               + ", ".join(sorted(allowed)))
        if name in DATA_PATH:
            bad += [f"lib/{name}: #{kind} {rest} in a data path file"
                    for kind, rest in conditions(text)]
    return files


def check_public(top, bad):
    files = sources(top, "include", suffixes=(".h",))
    for path in files:
        for kind, header in includes(path.read_text()):
            if kind == '"' or not PUBLIC.fullmatch(header):
                bad.append(f"include/troupe/{path.name}: a public header "
                           f"must not include {header}")
    return files


faults = []
library = check_library(root() / "lib", faults)
public = check_public(root(), faults)
if not library or not public:
    faults.append(f"{root()}: no sources below lib/ or include/")
finish(faults, f"{len(library)} files of lib, {len(public)} public headers")
