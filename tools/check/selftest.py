#!/usr/bin/env python3
"""Each check objects to what it is for.

A small tree that every check accepts is broken in one place at a time; the
check has to fail and to say the expected words. A check without a planted
fault here fails this one.
"""
import pathlib
import shutil
import subprocess
import sys
import tempfile

CHECKS = pathlib.Path(__file__).resolve().parent
TUNABLE = ('TUNABLE(TROUPE_WORKERS, workers, COUNT, 0, 1, 1024,\n'
           '        "worker threads")\n')

LONG = "is_on_a_line_of_its_own_because_it_is_as_long_as_a_line_has_room"

GOOD = {
    ".clang-format": (CHECKS.parents[1] / ".clang-format").read_text(),
    "include/troupe/decl.h": "#define TROUPE_API\n",
    "include/troupe/send.h": """#include <troupe/decl.h>

/* TROUPE_API void troupe_comment(void); TROUPE_WORKERS */
TROUPE_API int troupe_send(int to);
static inline int
troupe_twice(int to)
{
    return 2 * troupe_send(to);
}
#define troupe_payload(x) (x)
""",
    "lib/base/atomic.h": "#include <stdatomic.h>\n"
                         "#define trp_load_relaxed(p) (*(p))\n",
    "lib/base/cpu.h": "#include <ck_pr.h>\n",
    "lib/actor/send.c": """#include "base/atomic.h"

#include <troupe/send.h>

/* trp_load_acquire(x) in a comment is no operation. */
int
troupe_send(int to)
{
    return to;
}
""",
    "lib/queue/ring.h": """/* clang-format off */
#ifndef TRP_QUEUE_RING_H
#define TRP_QUEUE_RING_H

#include "base/atomic.h"

static inline int
trp_ring_pop(struct trp_ring *ring)
{
    /* relaxed: a block that says why, in
     * so many words that it needs
     * more than three lines
     * to end. */
    trp_store_relaxed(&ring->a, 1);
    trp_store_relaxed(&ring->b,
        trp_load_relaxed(&ring->c));
    trp_store_release(&ring->head, 1); /* pairs: ring.link, ring.full */

    /* relaxed, all of them: a paragraph. */
    trp_store_relaxed(&ring->a, 1);
    ring->d = 1;
    ring->e = 1;
    ring->f = 1;
    ring->g = 1;
    trp_store_relaxed(&ring->b, 1);
    if (ring->a &&
        trp_cas_acq_rel_weak(
            &ring->head, 0, 1)) { /* pairs: ring.order */
        return 1;
    }
    /* pairs: ring.full */
    trp_fence_acquire();
    return trp_load_acquire(&ring->head); /* pairs:
                                             ring.link */
}

#endif
""",
    "lib/testkit/probe.c": '#include "testkit/probe.h"\n',
    "lib/testkit/probe.h": "#include <troupe/send.h>\n",
    "lib/system/tunables.def": TUNABLE,
    "docs/memory-model.md": "# Model\n\nring.link ring.full ring.order\n",
    "docs/tuning.md": "# Tuning\n\n<!-- tunables:begin -->\n"
                      "<!-- tunables:end -->\n",
    "docs/man/troupe.7.scd": "*troupe_send*()\n\tSends.\n\n"
                             "*troupe_twice*()\n\n*troupe_payload*()\n\n"
                             "; tunables:begin\n; tunables:end\n",
    "docs/page.md": "# A Page: of `it`\n\n[model](memory-model.md#model)\n"
                    "[here](#a-page-of-it) [site](https://example.org/x)\n"
                    "```\n[no](link.md)\n```\n"
                    "<!-- program: examples/hello.c -->\n```c\nint x;\n```\n",
    "docs/decisions/README.md": "# Decisions\n\n<!-- index:begin -->\n\n"
                                "- [0001: one](0001-one.md)\n\n"
                                "<!-- index:end -->\n",
    "docs/decisions/0001-one.md": "# 0001: one\n",
    "examples/hello.c": "/* SPDX-License-Identifier: MIT */\nint x;\n",
    "test/wait_test.c": "/* sleep(1) */\nint nosleep(void);\n",
    "test/run.sh": "# sleep 5\necho asleep\n",
    "test/ring_test.c": "Test(ring, keeps_order)\n{\n}\n\n"
                        f"Test(\n    ring_more, {LONG})\n{{\n}}\n"
                        "/*\nTest(ring, is_a_comment)\n*/\n",
    "test/README.md": "# Tests\n\n| case | does | tests |\n|---|---|---|\n"
                      "| a | `b` | `ring/keeps_order` `" f"ring_more/{LONG}` |\n"
                      "| c | | later: routers |\n\nText, and `another/one`."
                      "\n\n| no. | tests |\n|---|---|\n| 1 | `run.sh` |\n",
    "test/model/meson.build": "model_plants = {\n"
                              "  # How it is found.\n"
                              "  'send_two': ['actor', 'lib/actor/send.c', "
                              "'post',\n    '100000'],\n}\n",
    "test/model/planted/send_two.plant": "# Answers with another one.\n"
                                         "file: lib/actor/send.c\n"
                                         "find:\n    return\n to;\n"
                                         "replace:\n    return to + 1;\n"
                                         "find:\n    to + 1;\n"
                                         "replace:\n    to + 2;\n",
    "tools/check/sleeps.max": "0\n",
    "CONTRIBUTING.md": """<!-- sample: lib/base/one.h -->
```c
int one(void);
```
<!-- sample: lib/base/one.c -->
```c
#include "base/one.h"

#include "base/atomic.h"

int
one(void)
{
    int n = 1;

    return trp_load_relaxed(&n); /* relaxed: ours */
}
```
""",
}

RING = "lib/queue/ring.h"
CLAIMS = "test/README.md"
SEND = "lib/actor/send.c"
PAGE = "docs/page.md"
MAN = "docs/man/troupe.7.scd"
PLANT = "test/model/planted/send_two.plant"
PLANTS = "test/model/meson.build"
END = "\n#endif\n"  # of the ring: where to add a function
LINK = "/* pairs: ring.link, ring.full */"

# (check, file, text that is there or None to append, what replaces it, words)
PLANTED = [
    ("layers.py", SEND, None, '#include "system/log.h"\n', "must not see"),
    ("layers.py", SEND, None, '#include "../base/cpu.h"\n', "folder/file.h"),
    ("layers.py", SEND, None, '#include "atomic.h"\n', "folder/file.h"),
    ("layers.py", SEND, None, "#include <ck_ring.h>\n", "<ck_ring.h> only in"),
    ("layers.py", RING, '#include "base', '#include <stdatomic.h>\n#include "b'
     "ase", "<stdatomic.h> only in"),
    ("layers.py", SEND, None, "#ifdef __linux__\n#endif\n", "data path file"),
    ("layers.py", RING, END, "\n#if 1\n#endif\n" + END, "data path file"),
    ("layers.py", RING, END, "\n#else\n" + END, "data path file"),
    ("layers.py", "lib/testkit/probe.c", None, '#include "base/cpu.h"\n',
     "testkit uses the public API"),
    ("layers.py", "lib/misc/x.c", None, "int x;\n", "not in the stack"),
    ("layers.py", "lib/x.c", None, "int x;\n", "not in the stack"),
    ("layers.py", "include/troupe/send.h", None, "#include <pthread.h>\n",
     "a public header must not include pthread.h"),
    ("layers.py", "include/troupe/send.h", None, '#include "base/cpu.h"\n',
     "a public header must not include"),
    ("pairs.py", RING, LINK, "", "release without"),
    ("pairs.py", RING, "/* pairs: ring.full */", "", "acquire without"),
    ("pairs.py", RING, "/* pairs: ring.order */", "", "acq_rel without"),
    ("pairs.py", RING, LINK, "/* pairs: ring.other */",
     "pair ring.link has only one side"),
    ("pairs.py", RING, LINK, "/* pairs: ring.link */",
     "pair ring.full has only one side"),
    ("pairs.py", RING, "/* relaxed: a block", "/* a block",
     "relaxed without a reason"),
    ("pairs.py", RING, "/* relaxed: a block", "/* relaxed: */ /* a block",
     "relaxed without a reason"),
    ("pairs.py", RING, "    trp_store_release",
     "    f();\n    g();\n    h();\n    i();\n    trp_sub_relaxed(&x, 1);\n"
     "    trp_store_release", "relaxed without a reason"),
    ("pairs.py", RING, "relaxed, all of them: a", "relaxed: a",
     "relaxed without a reason"),
    ("pairs.py", RING, "    ring->g = 1;\n", "    ring->g = 1;\n\n",
     "relaxed without a reason"),
    ("pairs.py", RING, "trp_load_acquire(&ring->head); /* pairs:",
     "trp_load_seq_cst(&ring->lead); /* pairs: idle.lone,",
     "pair idle.lone has only one side"),
    ("pairs.py", RING, END, "void f(void)\n{\n    trp_fence_seq_cst();"
     " /* pairs: idle.fence */\n}\n" + END, "pair idle.fence has only one"),
    ("pairs.py", RING, END, "void f(void)\n{\n    trp_swap_acq_rel(&x, 1);"
     " /* pairs: ring.fresh */\n}\n" + END, "not in docs/memory-model.md"),
    ("pairs.py", SEND, "    return to;", "    return atomic_load(&to);",
     "raw atomic"),
    ("pairs.py", SEND, "    return to;", "    __atomic_store_n(&to, 1, 0);",
     "raw atomic"),
    ("pairs.py", SEND, "    return to;", "    ck_pr_store_int(&to, 1);",
     "raw atomic"),
    ("implicit.sh", SEND, "int\ntroupe_send", "_Atomic int n;\nint f(void)\n"
     "{\n    return n++;\n}\nint\ntroupe_send", "implicit use of sequentially"),
    ("exports.py", SEND, "\ntroupe_send", "\nsend_it", "but not exported"),
    ("exports.py", SEND, None, "int\ntroupe_more(void)\n{\n    return 1;\n}\n",
     "troupe_more is exported but no header"),
    ("exports.py", SEND, None, "int\ntroupe_private_x(void)\n{\n    return 1;"
     "\n}\n", "troupe_private_x is exported but no header"),
    ("exports.py", SEND, None, "static int calls;\nint *\ntroupe_x(void)\n{\n"
     "    return &calls;\n}\n", "calls is a writable variable"),
    ("exports.py", SEND, "    return to;", "    static int last = 7;\n"
     "    return last += to;", "is a writable variable"),
    ("exports.py", SEND, "    return to;", "    static _Thread_local int a;\n"
     "    static _Thread_local int b = 1;\n    return (a += to) + (b += to);",
     "more than one thread-local"),
    ("exports.py", SEND, None, "double cos(double);\nint\ntroupe_cos(int x)\n"
     "{\n    return (int)cos(x);\n}\n", "linked to libm"),
    ("tunables.py", "lib/system/tunables.def", "1024", "2048", "stale"),
    ("tunables.py", "docs/tuning.md", "1 to 1024", "1 to 64", "stale"),
    ("tunables.py", MAN, "1 to 1024", "1 to 64", "stale"),
    ("tunables.py", "docs/tuning.md", "<!-- tunables:end -->", "",
     "must occur once"),
    ("tunables.py", "lib/system/tunables.def", "COUNT", "COUNTS",
     "unknown unit"),
    ("tunables.py", "lib/system/tunables.def", "0, 1, 1024", "0, 1",
     "arguments, not 7"),
    ("tunables.py", "lib/system/tunables.def", None, TUNABLE, "occurs twice"),
    ("tunables.py", "lib/system/tunables.def", None,
     TUNABLE.replace("WORKERS", "SECRET"), "SECRET is in no public header"),
    ("man.py", MAN, "*troupe_send*()", "See *troupe_send*()",
     "troupe_send (send.h) is in no man page"),
    ("man.py", MAN, "*troupe_twice*()", "", "troupe_twice (send.h) is in no"),
    ("man.py", MAN, "*troupe_payload*()", "", "troupe_payload (send.h) is in"),
    ("man.py", "docs/man/other.3.scd", None, "*troupe_send*()\n",
     "is in 2 places"),
    ("man.py", MAN, None, "*troupe_gone*()\n", "no header declares"),
    ("format.sh", SEND, "    return to;", "  return to;",
     "clang-format-14 would change it"),
    ("format.sh", "test/x_test.c", None, "int  x;\n",
     "clang-format-14 would change it"),
    ("links.py", PAGE, "memory-model.md#model", "missing.md", "does not exist"),
    ("links.py", PAGE, "memory-model.md#model", "memory-model.md#mood",
     "no such heading"),
    ("links.py", PAGE, "#a-page-of-it", "#a-page", "no such heading"),
    ("links.py", PAGE, None, "[x]: nowhere.md\n", "does not exist"),
    ("links.py", PAGE, None, "As `nowhere.md` says.\n", "not in the tree"),
    ("links.py", "lib/actor/send.c", "in a comment", "(nowhere.md 3)",
     "not in the tree"),
    ("programs.py", PAGE, "int x;", "int y;", "differs"),
    ("programs.py", "examples/hello.c", "int x;", "int y;", "differs"),
    ("programs.py", PAGE, "examples/hello.c", "examples/hell.c",
     "does not exist"),
    ("samples.py", "CONTRIBUTING.md", "&n", "&two", "compile"),
    ("samples.py", "CONTRIBUTING.md", "    return", "  return", "format"),
    ("samples.py", "CONTRIBUTING.md", "/* relaxed: ours */", "",
     "relaxed without a reason"),
    ("samples.py", "CONTRIBUTING.md", '"base/one.h"', '"one.h"',
     "folder/file.h"),
    ("decisions.py", "docs/decisions/0002-two.md", None, "# 0002: two\n",
     "stale index"),
    ("decisions.py", "docs/decisions/0001-one.md", "one", "1", "stale index"),
    ("decisions.py", "docs/decisions/0001-one.md", "0001", "0002",
     "does not begin with"),
    ("decisions.py", "docs/decisions/0003-three.md", None, "# 0003: three\n",
     "expected 0002-"),
    ("claims.py", "test/ring_test.c", "keeps_order", "keeps_the_order",
     "there is no test ring/keeps_order"),
    ("claims.py", "test/ring_test.c", "ring_more", "ring",
     f"there is no test ring_more/{LONG}"),
    ("claims.py", CLAIMS, "keeps_order", "is_a_comment", "there is no test"),
    ("claims.py", CLAIMS, "`run.sh`", "`walk.sh`", "there is no test walk.sh"),
    ("claims.py", CLAIMS, "`run.sh`", "`.`", "there is no test ."),
    ("claims.py", CLAIMS, "`run.sh`", "run.sh", "names no test"),
    ("claims.py", CLAIMS, "later: routers", "later", "names no test"),
    ("claims.py", CLAIMS, "| c | |", "| c |", "2 columns, not 3"),
    ("sleeps.py", "test/wait_test.c", None, "void f(void)\n{\n    usleep(5);"
     "\n}\n", "1 sleeps in test/, at most 0"),
    ("sleeps.py", "test/wait_test.c", None, "void f(void)\n{\n    poll(NULL, 0,"
     " 5);\n}\n", "1 sleeps in test/, at most 0"),
    ("sleeps.py", "test/run.sh", None, "echo a; sleep 1\n",
     "1 sleeps in test/, at most 0"),
    ("sleeps.py", "tools/check/sleeps.max", "0", "3", "lower the 3"),
    ("plants.py", SEND, "return to;", "return from;",
     "send_two.plant: find 1 stands 0 times in lib/actor/send.c"),
    ("plants.py", SEND, "    return to;", "    if (to) {\n        return to;\n"
     "    }\n    return to;", "find 1 stands 2 times in lib/actor/send.c"),
    ("plants.py", PLANT, "    to + 1;\nr", "    to;\nr",
     "find 2 stands 0 times"),
    ("plants.py", PLANT, "    to + 2;", "    to+1;",
     "replace 2 changes nothing"),
    ("plants.py", PLANT, "    to + 1;\nr", "r", "find 2 is empty"),
    ("plants.py", PLANT, "send.c", "gone.c", "lib/actor/gone.c is not there"),
    ("plants.py", PLANT, "lib/actor/send.c", RING, f"changes {RING}, but"),
    ("plants.py", PLANT, "file: lib/actor/send.c\n", "", "no file"),
    ("plants.py", "test/model/planted/more.plant", None,
     f"file: {SEND}\nfind:\n    return to;\nreplace:\n    return 0;\n",
     "more.plant: not in model_plants"),
    ("plants.py", PLANTS, "send_two", "send_one", "no send_one.plant"),
    ("plants.py", PLANTS, "\n}", "\n  'send_two': ['actor', "
     "'lib/actor/send.c', 'post'],\n}", "send_two: twice in model_plants"),
    ("plants.py", PLANTS, "model_plants", "plants", "no model_plants"),
]


def write(top, files):
    for name, text in files.items():
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def build(top):
    """What exports.py looks at: the one function, with the right flags."""
    (top / "build" / "lib").mkdir(parents=True)
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-O0", "-w", f"-I{top}/include",
         f"-I{top}/lib", top / SEND, "-o", top / "build/lib/libtroupe.so",
         "-lm", "-Wl,--as-needed", "-lm"], check=True)


def run(check, top):
    done = subprocess.run([CHECKS / check, top], capture_output=True,
                          text=True)
    return done.returncode, done.stdout + done.stderr


def prepare(check, top):
    if check == "exports.py":
        build(top)


def plant(folder, check, name, old, new, words):
    """One broken copy; what is wrong with how the check took it, or None."""
    shutil.copytree(folder / "good", folder / "bad")
    path = folder / "bad" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    text = path.read_text() if path.exists() else ""
    if old is not None and old not in text:
        return f"{check}: nothing to break: {old!r} is not in {name}"
    path.write_text(text + new if old is None else text.replace(old, new, 1))
    prepare(check, folder / "bad")
    code, output = run(check, folder / "bad")
    shutil.rmtree(folder / "bad")
    if code == 77:
        return None  # its tool is missing; check-all shows that
    if code != 1 or words not in output:
        return (f"{check}: exit {code}, expected a fault with {words!r} after "
                f"{new.strip() or 'removal'!r} in {name}; it says:\n{output}")
    return None


def accepts(folder, check):
    shutil.copytree(folder / "good", folder / "kept")
    prepare(check, folder / "kept")
    code, output = run(check, folder / "kept")
    shutil.rmtree(folder / "kept")
    return None if code in (0, 77) else \
        f"{check} does not accept the good tree:\n{output}"


def looks_at_something(folder, check):
    (folder / "empty").mkdir()
    code, _ = run(check, folder / "empty")
    shutil.rmtree(folder / "empty")
    return None if code != 0 else f"{check} accepts an empty tree"


def main():
    checks = sorted(path.name for path in CHECKS.iterdir()
                    if path.suffix in (".py", ".sh")
                    and path.name not in ("common.py", "selftest.py"))
    faults = [f"{check}: no fault is planted for it" for check in checks
              if check not in {planted[0] for planted in PLANTED}]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write(folder / "good", GOOD)
        subprocess.run([sys.executable, CHECKS.parent / "gen-tuning", "--root",
                        folder / "good", "write"], check=True,
                       capture_output=True)
        faults += filter(None, (accepts(folder, check) for check in checks))
        faults += filter(None, (looks_at_something(folder, check)
                                for check in checks))
        for planted in PLANTED:
            fault = plant(folder, *planted)
            shutil.rmtree(folder / "bad", ignore_errors=True)
            if fault:
                faults.append(fault)
    print("\n".join(faults)
          or f"ok: {len(PLANTED)} planted faults, {len(checks)} checks")
    sys.exit(1 if faults else 0)


main()
