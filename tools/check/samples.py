#!/usr/bin/env python3
"""The sample module of CONTRIBUTING.md keeps the rules that it explains.

Its files, each a block after `<!-- sample: lib/base/x.h -->`, are written to an
empty tree, compiled with all warnings, formatted, checked and tested there.
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from common import finish, root

BLOCK = re.compile(r"<!-- sample: (\S+) -->\n```\w*\n(.*?)^```$", re.S | re.M)
WARNINGS = ["-std=gnu11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Wpedantic",
            "-Wshadow", "-Wconversion", "-Wundef", "-Wstrict-prototypes",
            "-Wmissing-prototypes", "-Wvla", "-Wswitch-enum", "-Werror"]
CHECKS = pathlib.Path(__file__).resolve().parent


def run(name, *command):
    done = subprocess.run([str(part) for part in command],
                          capture_output=True, text=True)
    if done.returncode:
        faults.append(f"CONTRIBUTING.md: {name}:\n{done.stdout}{done.stderr}")
    return done.returncode == 0


def check(top, tree, names):
    include = [f"-I{tree}/lib", f"-I{top}/lib", f"-I{top}/include"]
    code = [tree / name for name in names if name.endswith(".c")]
    compiled = True
    for path in code:
        criterion = ["-Wno-pedantic"] if path.is_relative_to(tree / "test") \
            else []
        compiled &= run("compile", "cc", *WARNINGS, *criterion, *include, "-c",
                        path, "-o", path.with_suffix(".o"))
    if compiled and pathlib.Path("/usr/include/criterion").exists():
        if run("link", "cc", *[p.with_suffix(".o") for p in code],
               "-lcriterion", "-o", tree / "sample"):
            run("test", tree / "sample")
    if shutil.which("clang-format-14"):
        shutil.copy(top / ".clang-format", tree)
        run("format", "clang-format-14", "--dry-run", "-Werror",
            *[tree / name for name in names])
    shutil.copytree(top / "include", tree / "include")
    for script in ("pairs.py", "layers.py"):
        run(script, sys.executable, CHECKS / script, tree)


top = root()
faults = []
samples = BLOCK.findall((top / "CONTRIBUTING.md").read_text())
if not samples:
    faults.append("CONTRIBUTING.md: no sample")
with tempfile.TemporaryDirectory() as folder:
    tree = pathlib.Path(folder)
    for name, text in samples:
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    if samples:
        check(top, tree, [name for name, _ in samples])
finish(faults, f"{len(samples)} sample files")
