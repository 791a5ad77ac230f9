#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs an example and compares what it prints with a file.

Usage: check_output.py EXPECTED PROGRAM [argument ...]
"""
import difflib
import pathlib
import subprocess
import sys

expected = pathlib.Path(sys.argv[1]).read_text()
done = subprocess.run(sys.argv[2:], stdout=subprocess.PIPE, text=True,
                      timeout=300)
sys.stdout.writelines(difflib.unified_diff(
    expected.splitlines(True), done.stdout.splitlines(True),
    "expected", "printed"))
if done.returncode != 0:
    print(f"exit status {done.returncode}")
sys.exit(done.returncode != 0 or done.stdout != expected)
