#!/usr/bin/env python3
"""summary.py [results.csv]: median (min-max) per bench and peer, as Markdown tables."""
import collections, statistics, sys
rows = collections.defaultdict(list)
fails = set()
NEAR = 8e6  # two-core ping-pong by hand: above, the cores are near each other
which = sys.argv[2] if len(sys.argv) > 2 else "all"  # all, near or far: the runs with two threads to look at
state, probes = None, []
for l in open(sys.argv[1] if len(sys.argv) > 1 else "results.csv"):
    b, p, t, secs, msgs, rate, kb = l.strip().split(",")
    if b == "probe":
        probes.append(float(rate))
        state = "near" if float(rate) > NEAR else "far"
    elif secs == "FAIL":
        fails.add((b, p, int(t)))
    elif t == "1" or which in ("all", state):
        rows[b, p, int(t)].append((float(rate), float(secs), int(msgs), int(kb)))
PEERS = "troupe pony tokio tokiob gobuf go0 so5 caf11 caf017 erlang25 actor-ts hand".split()
BENCHES = ("pingpong ring count n1 fjthrput big ubench chameneos dict bndbuf router4 router16 router64 ask "
           "fjcreate churn fib skynet").split()
def med(k, i=0): return statistics.median(x[i] for x in rows[k])
def num(x):
    return f"{x/1e6:.1f}" if x >= 1e7 else f"{x/1e6:.2f}" if x >= 1e5 else f"{x/1e6:.3f}"
for t in (1, 2):
    print(f"\n### {t} worker thread{'s' if t > 1 else ''}: million messages (or actors) per second, median [min-max]; ratio to the fastest peer\n")
    print("| bench | " + " | ".join(PEERS) + " |\n|---|" + "---|" * len(PEERS))
    for b in BENCHES:
        best = max((med((b, p, t)) for p in PEERS if p not in ("hand", "troupe") and rows.get((b, p, t))), default=0)
        cells = []
        for p in PEERS:
            r = rows.get((b, p, t))
            if r:
                v = [x[0] for x in r]
                m = statistics.median(v)
                s = f"{num(m)} [{num(min(v))}-{num(max(v))}] {m/best:.2f}"
                cells.append(f"**{s}**" if m == best else s)
            else:
                cells.append("FAIL" if (b, p, t) in fails else "")
        print(f"| {b} | " + " | ".join(cells) + " |")
print("\n### Memory per actor (bytes), spawn rate and rate of one message to each\n\n| peer | threads | actors | fresh | warm (1 message handled) | spawned M/s | messaged M/s |\n|---|---|---|---|---|---|---|")
for p in PEERS:
    for t in (1, 2):
        r, w = rows.get(("memory", p, t)), rows.get(("memwarm", p, t))
        if r and w:
            f = statistics.median(x[3] * 1024 / x[2] for x in r); g = statistics.median(x[3] * 1024 / x[2] for x in w)
            print(f"| {p} | {t} | {r[0][2]} | {f:.0f} | {g:.0f} | {num(med(('memory', p, t)))} [{num(min(x[0] for x in r))}-{num(max(x[0] for x in r))}] | {num(med(('memwarm', p, t)))} [{num(min(x[0] for x in w))}-{num(max(x[0] for x in w))}] |")
print("\n### Ask latency, one asker (nanoseconds, clock reading included), median over the runs [min-max]\n\n| peer | p50 1 thr | p99 1 thr | p50 2 thr | p99 2 thr |\n|---|---|---|---|---|")
for p in PEERS:
    c = []
    for t in (1, 2):
        for q in ("ask_p50", "ask_p99"):
            r = [x[1] * 1e9 for x in rows.get((q, p, t), [])]
            c.append(f"{statistics.median(r):.0f} [{min(r):.0f}-{max(r):.0f}]" if r else "")
    if any(c): print(f"| {p} | " + " | ".join(c) + " |")
print("\n### Peak RSS (MB), median\n\n| bench/threads | " + " | ".join(PEERS) + " |\n|---|" + "---|" * len(PEERS))
for b in "count n1 fjthrput router4 fjcreate churn fib skynet".split():
    for t in (1, 2):
        print(f"| {b}/{t} | " + " | ".join(f"{med((b, p, t), 3)/1024:.0f}" if rows.get((b, p, t)) else "" for p in PEERS) + " |")
print("\n### Others\n")
for k in sorted(rows):
    if k[0].startswith(("routersm", "routerrr", "n1fifo")):
        v = [x[0] for x in rows[k]]
        print(f"- {k[0]} {k[1]} {k[2]} thr: {num(statistics.median(v))} [{num(min(v))}-{num(max(v))}]")
print("\nprobes (two-core ping-pong by hand, M msgs/s):", " ".join(f"{x/1e6:.1f}" for x in probes))
print("\nruns per cell:", sorted(collections.Counter(len(v) for v in rows.values()).items()), "fails:", sorted(fails))
