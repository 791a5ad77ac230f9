#!/usr/bin/env python3
"""Runs troupe and every built peer, interleaved, and appends to a CSV file.

    run.py [-r ROUNDS] [-o FILE] [-b BENCH,...] [-p PEER,...] [-t THREADS,...]
           [-s SCALE] [--troupe PROGRAM] [--limit SECONDS]

One round runs each (bench, threads, peer) once, the peers in turn; each group of
peers holds a lock file beside this script; each run has a time limit. A run during
which other processes used more than 5% of a core (and more than 20 ms) is put
into FILE.dirty instead, and tried again, three times at most per round; not if it
took more than five seconds, and not on a machine that is never quiet. Before each
group with two threads, a row "probe" has the rate of the hand-written two-core
ping-pong: on virtual machines the distance between the two cores changes. A peer that
fails or times out at a (bench, threads) is recorded with "FAIL" and not tried again
there. SCALE per peer keeps a run at about 0.3 to 2 seconds.
"""
import argparse
import fcntl
import os
import resource
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TROUPE = os.path.join(HERE, "..", "..", "build-bench", "bench", "troupe-bench")
BENCHES = ("pingpong ring count fjthrput big n1 ask ubench skynet fib churn fjcreate memory "
           "chameneos dict bndbuf router4 router16 router64 n1fifo routersm4 routersm16 routersm64 routerrr16").split()
FAST, MID, SLOW = 1.0, 0.2, 0.05
# name: (program, default scale, environment, thread counts)
PEERS = {
    "troupe":   (None, FAST, {}, (1, 2)),
    "caf017":   ("caf/bench", MID, {}, (1, 2)),
    "erlang25": ("erlang/bench", MID, {}, (1, 2)),
    "gobuf":    ("go/bench", FAST / 2, {}, (1, 2)),
    "go0":      ("go/bench", FAST / 2, {"CAP": "0"}, (1, 2)),
    "tokio":    ("tokio/bench", FAST, {}, (1, 2)),
    "tokiob":   ("tokio/bench", FAST, {"BOUNDED": "1"}, (1, 2)),
    "hand":     ("baseline/bench", FAST, {}, (1, 2)),
}
ONLY = {  # rows of troupe, and variants that differ from their sibling only in these
    "troupe": set("pingpong ring count n1 fjthrput big ubench chameneos dict bndbuf "
                  "fjcreate churn fib skynet memory router4 router16 router64".split()),
    "go0": set("pingpong ring count fjthrput n1 ask memory router4 router16 router64".split()),
    "tokiob": set("count fjthrput n1 router4 router16 router64".split()),
    "hand": set("pingpong ring count fjcreate fjthrput big n1 ubench n1fifo".split()),
}
EXTRA = {"hand": [("n1fifo", 2)]}
# (peer, bench): a scale of its own; the create benchmarks keep 1M or 200k actors
SCALES = {("caf017", "fjcreate"): 0.1, ("caf017", "churn"): 0.1,
          ("erlang25", "fjcreate"): 0.2, ("erlang25", "churn"): 0.2}

HOPELESS = 15  # disturbed runs in a row: trying again would not help
HZ = os.sysconf("SC_CLK_TCK")


def busy():
    """CPU seconds that this machine has spent on anything."""
    with open("/proc/stat") as stat:
        f = stat.readline().split()
    return sum(int(f[i]) for i in (1, 2, 3, 6, 7)) / HZ


def children():
    r = resource.getrusage(resource.RUSAGE_CHILDREN)
    return r.ru_utime + r.ru_stime


def settle(limit):
    """Wait for a quiet moment."""
    end = time.time() + limit
    while time.time() < end:
        b = busy()
        time.sleep(0.08)
        if busy() - b < 0.015:
            return


def run(cmd, env, quiet):
    """Run cmd; the result, whether others used the CPU meanwhile, and the time."""
    settle(quiet)
    t, b, c = time.time(), busy(), children()
    r = subprocess.run(cmd, env=env, capture_output=True, text=True)
    wall = time.time() - t
    foreign = (busy() - b) - (children() - c)
    return r, foreign > max(0.02, 0.05 * wall), wall


def program(peer, troupe):
    path = PEERS[peer][0]
    return os.path.abspath(troupe) if path is None else os.path.join(HERE, path)


def command(peer, bench, threads, scale, troupe):
    if peer == "troupe":
        rows = ["memory", "memwarm"] if bench == "memory" else [bench]
        return [program(peer, troupe), *rows, "--workers", str(threads),
                "--scale", str(scale), "--runs", "1", "--csv"]
    return [program(peer, troupe), bench, str(threads), str(scale)]


def applies(peer, bench, threads, all_threads):
    """Whether the peer has this row at this number of threads."""
    extra = (bench, threads) in EXTRA.get(peer, [])
    if threads not in PEERS[peer][3] and peer != "troupe":
        return False
    if extra:
        return True
    if peer in ONLY and bench not in ONLY[peer]:
        return False
    if bench.startswith(("routersm", "routerrr", "n1fifo")):
        return False
    if bench == "memory" and threads == 1 and 2 in all_threads:
        return False  # the same at 1 and 2 threads
    if peer == "hand" and threads == 2:
        return bench in ("pingpong", "count", "n1")
    return True


def probe(out):
    """How far apart are the two cores just now?"""
    hand = os.path.join(HERE, "baseline/bench")
    if os.path.exists(hand):
        r = subprocess.run([hand, "pingpong", "2", "0.02"], capture_output=True, text=True)
        out.write("probe," + r.stdout.split(",", 1)[1])


def measure(peer, bench, threads, args, out, bad):
    """One result of one cell; false if the peer has failed there."""
    _, scale, env, _ = PEERS[peer]
    scale = SCALES.get((peer, bench), scale) * args.s
    cmd = ["timeout", str(args.limit), *command(peer, bench, threads, scale, args.troupe)]
    for _ in range(3 if args.disturbed < HOPELESS else 1):
        r, dirty, wall = run(cmd, {**os.environ, **env}, args.settle)
        args.disturbed = args.disturbed + 1 if dirty else 0
        lines = [l for l in r.stdout.splitlines() if l.count(",") == 6]
        if r.returncode != 0 or not lines:
            out.write(f"{bench},{peer},{threads},FAIL,{r.returncode},0,0\n")
            out.flush()
            print(f"{peer} {bench} {threads}: exit {r.returncode} {r.stderr.strip()[-300:]}",
                  file=sys.stderr)
            return False
        to = bad if dirty else out
        for l in lines:
            to.write(l + "\n")
        to.flush()
        if not dirty or wall > 5:
            break
    return True


def group(bench, threads, peers, args, failed, out, bad):
    """All peers, once each, at one bench and number of threads."""
    with open(os.path.join(HERE, ".lock"), "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if threads == 2:
            settle(args.settle)
            probe(out)
        for peer in peers:
            key = (peer, bench, threads)
            if key in failed or not applies(peer, bench, threads, args.threads):
                continue
            if not os.path.exists(program(peer, args.troupe)):
                continue
            if not measure(peer, bench, threads, args, out, bad):
                failed.add(key)


def arguments():
    a = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("-r", type=int, default=5, metavar="ROUNDS")
    a.add_argument("-o", default=os.path.join(HERE, "results.csv"), metavar="FILE")
    a.add_argument("-b", metavar="BENCH,...")
    a.add_argument("-p", metavar="PEER,...")
    a.add_argument("-t", metavar="THREADS,...")
    a.add_argument("-s", type=float, default=1.0, metavar="SCALE",
                   help="multiplies every scale")
    a.add_argument("--troupe", default=TROUPE, metavar="PROGRAM",
                   help="the troupe-bench to run; default: that of build-bench")
    a.add_argument("--limit", type=int, default=30, metavar="SECONDS")
    a.add_argument("--settle", type=float, default=4.0, metavar="SECONDS",
                   help="how long to wait for a quiet machine before a run")
    args = a.parse_args()
    args.disturbed = 0
    args.peers = args.p.split(",") if args.p else list(PEERS)
    args.benches = args.b.split(",") if args.b else BENCHES
    args.threads = [int(t) for t in args.t.split(",")] if args.t else [1, 2]
    for peer in args.peers:
        if peer not in PEERS:
            a.error(f"-p: {peer}: must be one of {' '.join(PEERS)}")
    for bench in args.benches:
        if bench not in BENCHES:
            a.error(f"-b: {bench}: must be one of {' '.join(BENCHES)}")
    return args


def main():
    args = arguments()
    failed = set()
    with open(args.o, "a") as out, open(args.o + ".dirty", "a") as bad:
        for rnd in range(args.r):
            for threads in args.threads:
                for bench in args.benches:
                    group(bench, threads, args.peers, args, failed, out, bad)
            print(f"round {rnd + 1} of {args.r} done at {time.strftime('%H:%M:%S')}",
                  file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
