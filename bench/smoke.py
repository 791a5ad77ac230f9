#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""smoke.py TROUPE-BENCH: every row runs, every line has the form we promise.

The figures themselves are no test: a run that is disturbed is slow, not wrong.
"""
import re
import subprocess
import sys

LINE = re.compile(r"([a-z0-9_]+),troupe,(\d+),(\d+\.\d{9}),(\d+),(\d+),(-?\d+)")

# Arguments that must be refused, and what the message must name.
BAD = [
    (["--workers", "x"], ["--workers", "1 to 1024", '"x"']),
    (["--workers", "0"], ["--workers", "1 to 1024", '"0"']),
    (["--workers=1025"], ["--workers", "1 to 1024", '"1025"']),
    (["--scale", "-1"], ["--scale", "above 0", '"-1"']),
    (["--scale", "1x"], ["--scale", "above 0", '"1x"']),
    (["--scale"], ["--scale", "above 0"]),
    (["--runs", "0"], ["--runs", "1 to 1000", '"0"']),
    (["--csv=yes"], ["--csv", "no value", '"yes"']),
    (["--nonsense"], ["--help", '"--nonsense"']),
    (["nonsense"], ["ROW", "--list", '"nonsense"']),
]

failures = []


def expect(holds, text):
    if not holds:
        failures.append(text)


def run(*arguments):
    return subprocess.run([sys.argv[1], *arguments], capture_output=True,
                          text=True)


def rows():
    listed = run("--list")
    expect(listed.returncode == 0, "--list: exit status")
    return [line.split()[0] for line in listed.stdout.splitlines()]


def check_line(line, workers):
    match = LINE.fullmatch(line)
    if match is None:
        failures.append(f"not in the promised form: {line!r}")
        return None
    row, threads, seconds, messages, rate, _ = match.groups()
    expect(int(threads) == workers, f"{row}: {threads} workers, not {workers}")
    expect(float(seconds) > 0, f"{row}: no time")
    expect(int(messages) > 0, f"{row}: no messages")
    if float(seconds) > 1e-4:
        computed = int(messages) / float(seconds)
        expect(abs(computed - int(rate)) <= 1 + computed * 1e-3,
               f"{row}: rate {rate} is not {computed:.0f}")
    return row


def check_rows(workers):
    quick = run("--quick", "--csv", "--workers", str(workers))
    expect(quick.returncode == 0,
           f"{workers} workers: exit {quick.returncode}\n{quick.stderr}")
    expect(quick.stderr == "", f"{workers} workers: stderr {quick.stderr!r}")
    seen = [check_line(line, workers) for line in quick.stdout.splitlines()]
    expect(seen == rows(), f"{workers} workers: rows {seen}")


def check_table():
    table = run("--quick", "--runs", "2", "pingpong", "memory")
    lines = table.stdout.splitlines()
    expect(table.returncode == 0, "table: exit status")
    expect([line.split()[0] for line in lines] ==
           ["troupe", "row", "pingpong", "memory"], f"table: {lines}")


def check_arguments():
    for arguments, words in BAD:
        bad = run(*arguments)
        expect(bad.returncode == 2, f"{arguments}: exit {bad.returncode}")
        expect(bad.stdout == "", f"{arguments}: prints on stdout")
        for word in words:
            expect(word in bad.stderr, f"{arguments}: {bad.stderr!r}")
    for argument in ("--help", "--version"):
        good = run(argument)
        expect(good.returncode == 0 and "troupe-bench" in good.stdout, argument)


def main():
    check_arguments()
    check_table()
    for workers in (1, 2):
        check_rows(workers)
    print("\n".join(failures) or "ok")
    return 1 if failures else 0


sys.exit(main())
