#!/usr/bin/env python3
"""The shared libraries export what the headers declare, and hold no state.

    exports.py [ROOT [BUILD]]      default: the newest build*/ with a library

Both ways: a TROUPE_API function that is missing in `nm -D`, an exported symbol
that no header declares. troupe_private_* is for the companions, who must use
it. Then: no writable variable except one thread-local block (two systems live in
one process), and nothing linked but libc and ck.
"""
import pathlib
import re
import subprocess
import sys

from common import finish, public_functions, root, skip

LIBRARIES = {  # soname stem: the headers it implements; None = the others
    "libtroupe": None,
    "libtroupe-testkit": {"testkit.h"},
}
LINKED = re.compile(r"(libc|libck|libpthread|ld-linux.*|ld-musl.*|libc\.musl.*"
                    r"|libtroupe)\.so(\.\d+)?")
TOOLCHAIN = {"_DYNAMIC", "_GLOBAL_OFFSET_TABLE_", "__TMC_END__",
             "__dso_handle", "__bss_start", "_edata", "_end"}
TOOLCHAIN_LOCAL = re.compile(r"completed\.\d+|__frame_dummy.*|__do_global.*")


def output(*command):
    return subprocess.run(command, check=True, capture_output=True,
                          text=True).stdout


def build_folder(top):
    if len(sys.argv) > 2:
        return pathlib.Path(sys.argv[2]).resolve()
    found = sorted(top.glob("build*/lib/libtroupe.so"),
                   key=lambda path: path.stat().st_mtime)
    return found[-1].parents[1] if found else None


def imported(library):
    return {line.split()[-1].split("@")[0]
            for line in output("nm", "-D", "-u", library).splitlines()}


def exported(library):
    """Names in the dynamic symbol table, without the version nodes."""
    names = set()
    for line in output("nm", "-D", "--defined-only", library).splitlines():
        kind, name = line.split()[-2:]
        if kind != "A":
            names.add(name.split("@")[0])
    return names


def variables(library):
    """(writable, thread-local) symbols of the whole library."""
    sections = dict(re.findall(r"^\s*\[\s*(\d+)\]\s+(\S+)",
                               output("readelf", "-SW", library), re.M))
    writable, local = set(), set()
    for line in output("readelf", "-sW", library).splitlines():
        part = line.split()
        if len(part) < 8 or not part[0].rstrip(":").isdigit():
            continue
        kind, section, name = part[3], sections.get(part[6], ""), part[7]
        name = name.split("@")[0]
        if kind == "TLS" and section:
            local.add(name)
        elif re.match(r"\.(data|bss)(?!\.rel\.ro)", section) \
                and kind in ("OBJECT", "NOTYPE", "COMMON") \
                and name not in TOOLCHAIN \
                and not TOOLCHAIN_LOCAL.fullmatch(name):
            writable.add(name)
    return writable, local


def check(library, declared, private, bad):
    """`private` is what the companions import."""
    names = exported(library)
    names -= {name for name in names & private
              if name.startswith("troupe_private_")}
    stem = library.name
    bad += [f"{stem}: {name} is declared in {declared[name]} but not exported"
            for name in sorted(declared.keys() - names)]
    bad += [f"{stem}: {name} is exported but no header declares it"
            for name in sorted(names - declared.keys())]
    if ".symtab" not in output("readelf", "-SW", library):
        bad.append(f"{stem}: stripped, its variables cannot be seen")
    writable, local = variables(library)
    bad += [f"{stem}: {name} is a writable variable"
            for name in sorted(writable)]
    if len(local) > 1:
        bad.append(f"{stem}: more than one thread-local variable: "
                   + ", ".join(sorted(local)))
    needed = re.findall(r"NEEDED.*\[(.*)\]", output("readelf", "-dW", library))
    bad += [f"{stem}: linked to {name}" for name in needed
            if not LINKED.fullmatch(name)]
    return len(names)


top = root()
build = build_folder(top)
if build is None:
    skip("no build*/lib/libtroupe.so; build first or name the build folder")

functions = {name: header
             for name, (header, kind) in public_functions(top).items()
             if kind == "export"}
companion_headers = set().union(*filter(None, LIBRARIES.values()))
private = set().union(*(imported(path) for stem, headers in LIBRARIES.items()
                        if headers for path in build.rglob(f"{stem}.so")))
faults, counts = [], []
for stem, headers in LIBRARIES.items():
    wanted = {name: header for name, header in functions.items()
              if (header in headers if headers
                  else header not in companion_headers)}
    paths = sorted(build.rglob(f"{stem}.so"))
    if not wanted:
        continue
    if not paths:
        faults.append(f"{build}: no {stem}.so")
    elif re.search(r"__(asan|tsan|ubsan|gcov)_", output("nm", paths[0])):
        skip(f"{build} is an instrumented build")
    else:
        counts.append(f"{check(paths[0], wanted, private, faults)} functions "
                      f"of {stem}")
if not functions:
    faults.append(f"{top}: no TROUPE_API function below include/")
finish(faults, ", ".join(counts))
