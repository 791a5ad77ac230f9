#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs heavy_tail, in virtual time and in real time, and draws what it prints.

Usage: check_heavy_tail.py PROGRAM PLOT

In virtual time the figures are the same everywhere, so what is said of the
strategies can be checked; in real time only the form can.
"""
import subprocess
import sys
import xml.etree.ElementTree

HEAD = "strategy,jobs,count,p50_us,p99_us,p99_9_us"
STRATEGIES = ["round robin", "random", "two choices", "smallest mailbox",
              "least in flight"]
failures = []


def expect(holds, text):
    if not holds:
        failures.append(text)


def run(*arguments):
    return subprocess.run([sys.argv[1], *arguments], capture_output=True,
                          text=True, timeout=280)


def table(text):
    """(strategy, jobs) -> [count, p50, p99, p99.9]"""
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    expect(lines[:1] == [HEAD], f"head: {lines[:1]}")
    rows = [line.split(",") for line in lines[1:]]
    return {(row[0], row[1]): [float(cell) for cell in row[2:]] for row in rows}


def check_form(name, text, jobs):
    found = table(text)
    expect(list(found) == [(strategy, kind) for strategy in STRATEGIES
                           for kind in ("all", "light", "heavy")],
           f"{name}: lines {list(found)}")
    for strategy in STRATEGIES:
        counts = [found[strategy, kind][0] for kind in ("all", "light", "heavy")]
        expect(counts[0] == jobs == counts[1] + counts[2],
               f"{name}: {strategy}: {counts} jobs")
    for key, (_, p50, p99, p99_9) in found.items():
        least = 1000 if key[1] == "heavy" else 1
        expect(least <= p50 + 0.05 and p50 <= p99 <= p99_9, f"{name}: {key}")
    return found


def check_simulated():
    done = run("--simulate", "--jobs", "20000")
    expect(done.returncode == 0, f"simulated: {done.stderr}")
    p99 = {key: row[2] for key, row in
           check_form("simulated", done.stdout, 20000).items()}
    expect(p99["round robin", "all"] >= 5 * p99["smallest mailbox", "all"],
           f"five times: {p99}")
    expect(p99["round robin", "all"] >= 1.5 * p99["two choices", "all"],
           f"two choices: {p99}")
    expect(run("--simulate", "--jobs", "20000").stdout == done.stdout,
           "two runs of one seed differ")
    return done.stdout


def check_plot(text):
    plot = subprocess.run([sys.executable, sys.argv[2]], input=text, text=True,
                          capture_output=True, timeout=60)
    expect(plot.returncode == 0, f"plot: {plot.stderr}")
    picture = xml.etree.ElementTree.fromstring(plot.stdout)
    words = " ".join(picture.itertext())
    for word in STRATEGIES + ["p99.9", "virtual time"]:
        expect(word in words, f"the picture does not say {word!r}")
    bad = subprocess.run([sys.executable, sys.argv[2]], input="nonsense\n",
                         text=True, capture_output=True, timeout=60)
    expect(bad.returncode == 1 and bad.stdout == "", "plot of nonsense")


def main():
    check_plot(check_simulated())
    real = run("--jobs", "2000", "--workers", "2", "--load", "50")
    expect(real.returncode == 0, f"real: {real.stderr}")
    check_form("real", real.stdout, 2000)
    for arguments in (["--load", "100"], ["--jobs", "0"], ["--workers"], ["x"]):
        bad = run(*arguments)
        expect(bad.returncode == 2 and bad.stdout == "" and
               (arguments[0] == "x" or arguments[0] in bad.stderr),
               f"{arguments}: {bad.returncode} {bad.stderr!r}")
    print("\n".join(failures) or "ok")
    return 1 if failures else 0


sys.exit(main())
