#!/usr/bin/env python3
"""Every atomic operation names its pairing; every pairing has two sides."""
import pathlib, re, sys

OP = re.compile(r"\btrp_(?:load|store|swap|cas|add|and|or|fence)\w*_"
                r"(relaxed|acquire|release|acq_rel|seq_cst)\(")
TAG = re.compile(r"pairs: ([a-z_]+\.[a-z_]+)")
PUBLISH = {"release", "acq_rel", "seq_cst"}
OBSERVE = {"acquire", "acq_rel", "seq_cst"}

bad, sides = [], {}
for path in sorted(pathlib.Path(sys.argv[1]).rglob("*.[ch]")):
    if path.name == "atomic.h":
        continue
    lines = path.read_text().splitlines()
    for n, line in enumerate(lines):
        for order in OP.findall(line):
            near = " ".join(lines[max(0, n - 2):n + 1])
            where = f"{path}:{n + 1}"
            if order == "relaxed":
                if "relaxed: " not in near:
                    bad.append(f"{where}: relaxed without a reason")
                continue
            tag = TAG.search(line) or TAG.search(lines[n - 1])
            if not tag:
                bad.append(f"{where}: {order} without `pairs: unit.name`")
                continue
            sides.setdefault(tag[1], []).append((order, where))
    if re.search(r"\batomic_\w+\(|memory_order_", path.read_text()):
        bad.append(f"{path}: raw C11 atomic; use base/atomic.h")
for tag, uses in sorted(sides.items()):
    orders = {order for order, _ in uses}
    if not orders & PUBLISH or not orders & OBSERVE:
        bad.append(f"{uses[0][1]}: pair {tag} has only one side")
print("\n".join(bad) or f"ok: {len(sides)} pairs")
sys.exit(bool(bad))
