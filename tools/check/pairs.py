#!/usr/bin/env python3
"""Every atomic operation names its pairing; every pairing has two sides.

    trp_store_release(&node->next, prev); /* pairs: ring.link, ring.order */
    /* relaxed: only this thread writes it. */
    head = trp_load_relaxed(&ring->head);

A `pairs:` comment stands on the lines of the call, on the line above, in the
same statement or above the statement. A `relaxed:` comment may also end up to
three lines above; over a run of statements that are all relaxed, one is enough,
and `relaxed, all of them:` (or `both`) covers all lines up to a blank one.
An edge needs an operation that publishes and one that observes; where
docs/memory-model.md exists, it explains the edge.
"""
import re

from common import finish, root, sources, split

OP = re.compile(r"\btrp_(load|store|swap|cas|add|sub|and|or|fence)\w*?_"
                r"(relaxed|acquire|release|acq_rel|seq_cst)(?:_weak)?\s*\(")
RAW = re.compile(r"\batomic_\w+\s*\(|\bmemory_order_|\b__atomic_\w+|"
                 r"\b__sync_\w+|\bck_pr_(?!stall\b)\w+")
EDGE = r"[a-z][a-z0-9_]*\.[a-z][a-z0-9_]*"
TAGS = re.compile(rf"\bpairs: ({EDGE}(?:, {EDGE})*)")
REASON = re.compile(r"\brelaxed(?:, all of them|, both)?: \w")
REASON_OF_ALL = re.compile(r"\brelaxed, (?:all of them|both): \w")
PUBLISH = {"release", "acq_rel", "seq_cst"}
OBSERVE = {"acquire", "acq_rel", "seq_cst"}
EXEMPT = "base/atomic.h"


class Source:
    """The lines of a file, the statement each is part of, and the comments."""

    def __init__(self, text):
        code, self.comments = split(text)
        self.code = code.splitlines()
        self.raw = text.splitlines()
        self.first = []  # line -> first line of its statement
        self.last = {}   # first line -> last line
        start = 0
        for n, line in enumerate(self.code):
            self.first.append(start)
            self.last[start] = n
            bare = line.rstrip("\\ ")
            if not bare or bare[-1] in ";{}:" or bare.lstrip()[0] == "#":
                start = n + 1

    def begun_on(self, first, last):
        return [text for a, _, text in self.comments if first <= a <= last]

    def block_above(self, line):
        """Comments that stand alone and end on the line before."""
        found = []
        for a, b, text in reversed(self.comments):
            if b == line - 1 and not any(
                    self.code[n].strip() for n in range(a, b + 1)):
                found.append(text)
                line = a
        return found

    def ended_on(self, first, last):
        return [text for _, b, text in self.comments if first <= b <= last]

    def orders(self, first):
        """Orders of all operations of the statement."""
        text = "\n".join(self.code[first:self.last[first] + 1])
        return {order for _, order in OP.findall(text)}

    def call_end(self, line, column):
        """Line of the parenthesis that closes the call."""
        depth = 0
        for n in range(line, len(self.code)):
            for c in self.code[n][column if n == line else 0:]:
                depth += (c == "(") - (c == ")")
                if c == ")" and depth == 0:
                    return n
        return line


def tags_of(source, line, column):
    first = source.first[line]
    for comments in (source.begun_on(line, source.call_end(line, column)),
                     source.block_above(line),
                     source.begun_on(first, source.last[first]),
                     source.block_above(first)):
        found = [tag for text in comments
                 for tags in TAGS.findall(text) for tag in tags.split(", ")]
        if found:
            return found
    return []


def has_reason(source, line):
    first = source.first[line]
    comments = source.begun_on(first, source.last[first])
    while first > 0 and source.code[first - 1].strip() and \
            source.orders(source.first[first - 1]) == {"relaxed"}:
        first = source.first[first - 1]
        comments += source.begun_on(first, source.last[first])
    comments += source.ended_on(first - 3, first - 1)
    comments += source.block_above(first)
    if any(REASON.search(text) for text in comments):
        return True
    top = line
    while top > 0 and source.raw[top - 1].strip():
        top -= 1
    return any(REASON_OF_ALL.search(text)
               for text in source.begun_on(top, line))


def side(kind, order):
    """(publishes, observes)"""
    return (order in PUBLISH and kind != "load",
            order in OBSERVE and kind != "store")


def check_file(source, where, bad, edges):
    count = 0
    for n, line in enumerate(source.code):
        if RAW.search(line):
            bad.append(f"{where}:{n + 1}: raw atomic; use {EXEMPT}")
        for match in OP.finditer(line):
            kind, order = match.groups()
            count += 1
            if order == "relaxed":
                if not has_reason(source, n):
                    bad.append(f"{where}:{n + 1}: relaxed without a reason")
                continue
            tags = tags_of(source, n, match.start())
            if not tags:
                bad.append(f"{where}:{n + 1}: {order} without "
                           "`pairs: unit.edge`")
            for tag in tags:
                edges.setdefault(tag, []).append(
                    (kind, side(kind, order), f"{where}:{n + 1}"))
    return count


def check_edges(edges, model, bad):
    for tag, uses in sorted(edges.items()):
        where = uses[0][2]
        alone = len(uses) == 1 and uses[0][0] == "fence"
        if alone or not any(s[0] for _, s, _ in uses) \
                or not any(s[1] for _, s, _ in uses):
            bad.append(f"{where}: pair {tag} has only one side")
        if model is not None and not re.search(
                rf"(?<![\w.]){re.escape(tag)}(?![\w])", model):
            bad.append(f"{where}: pair {tag} is not in docs/memory-model.md")


top = root()
faults, all_edges, operations = [], {}, 0
paths = [p for p in sources(top, "lib")
         if p.relative_to(top / "lib").as_posix() != EXEMPT]
for path in paths:
    operations += check_file(Source(path.read_text()),
                             path.relative_to(top).as_posix(),
                             faults, all_edges)
memory_model = top / "docs" / "memory-model.md"
check_edges(all_edges,
            memory_model.read_text() if memory_model.exists() else None, faults)
if not operations:
    faults.append(f"{top}: no atomic operation below lib/")
finish(faults, f"{operations} operations, {len(all_edges)} pairs")
