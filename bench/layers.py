#!/usr/bin/env python3
"""Measures what the gateway's own layers cost: refusals beside proxied requests, and many tenants beside few.

    bench/layers.py refusals [--reps 6] [--secs 3]
    bench/layers.py tenants [--reps 6] [--secs 3] [--tenants 50000]

`refusals`: a node whose rate per address is used up (429 for nearly everything; nobody is turned away) and one that passes
everything on; runs are interleaved, CPU per answer as in proxy.py.

`tenants`: one node that is asked in the name of 10 tenants, then of many, in turns; memory is the growth of the
proportional set size from before the first of the many to after the last.

Needs what proxy.py needs.
"""
import argparse, os, shutil, statistics, sys, tempfile, time

import proxy

# A request each, by turns: both threads of wrk together pass through all names.
TENANTS_LUA = """
local threads = 0
function setup(thread) thread:set("id", threads); threads = threads + 1 end
function init(args) next_one = id end
function request()
  next_one = (next_one + 2) % {count}
  return wrk.format(nil, nil, {{ ["Host"] = "bench", ["x-tenant"] = "{prefix}" .. next_one }})
end
"""


def measured(bench, name, port, case, secs):
    before = proxy.cpu_us(bench.pids[name])
    row = proxy.wrk(port, case, secs, bench.dir)
    row["cpu_us"] = (proxy.cpu_us(bench.pids[name]) - before) / row["requests"]
    return row


def compare(bench, cases, args):
    """Runs (title, peer, port, wrk case) in turns; prints medians and ratios to the first."""
    rows = {title: [] for title, *_ in cases}
    for rep in range(args.reps):
        shift = rep % len(cases)
        for title, name, port, case in cases[shift:] + cases[:shift]:
            row = measured(bench, name, port, case, args.secs)
            rows[title].append(row)
            print(f"  {rep + 1}/{args.reps} {title}: {row['cpu_us']:.1f} µs {row['errors']}", file=sys.stderr)
    first = [row["cpu_us"] for row in next(iter(rows.values()))]
    print(f"| what | CPU µs per answer | ratio to {cases[0][0]} (median of paired) | answers/s | p50 µs | p99 µs |")
    for title, these in rows.items():
        middle = lambda key: statistics.median(row[key] for row in these)
        ratio = statistics.median(row["cpu_us"] / base for row, base in zip(these, first))
        print(f"| {title} | {middle('cpu_us'):.1f} | {ratio:.2f} | {middle('rps'):.0f} | {middle('p50_us'):.0f} | {middle('p99_us'):.0f} |")


def refusals(bench, up, args):
    used_up = proxy.LAYERS.replace("per_ip_rps = 1000000000", "per_ip_rps = 1, refusals_rps = 0")
    passed = bench.start_peer("omnigate", up)
    refused = bench.start_peer("omnigate-used-up", up, used_up)
    compare(bench, [
        ("proxied", "omnigate", passed, "tiny"),
        ("429 quota", "omnigate-used-up", refused, "tiny"),
    ], args)


def tenants(bench, up, args):
    layers = 'tenant_from = ["header:x-tenant", "ip"]\n' + proxy.LAYERS
    port = bench.start_peer("omnigate", up, layers)
    script = lambda count, prefix: bench.write(f"{prefix}.lua", TENANTS_LUA.format(count=count, prefix=prefix))
    case = lambda count, prefix: ("/tiny", ["-s", script(count, prefix)])
    few, many = case(10, "few"), case(args.tenants, "many")
    proxy.wrk(port, few, 3, bench.dir)
    time.sleep(4)
    before, asked = proxy.pss_kib(bench.pids["omnigate"]), 0
    while asked < 3 * args.tenants:
        asked += proxy.wrk(port, many, 3, bench.dir)["requests"]
    time.sleep(4)
    grown = (proxy.pss_kib(bench.pids["omnigate"]) - before) * 1024
    print(f"{args.tenants} tenants: {before} KiB before, {grown / args.tenants:.0f} bytes more per tenant\n")
    compare(bench, [("10 tenants", "omnigate", port, few), (f"{args.tenants} tenants", "omnigate", port, many)], args)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["refusals", "tenants"])
    parser.add_argument("--reps", type=int, default=6)
    parser.add_argument("--secs", type=int, default=3)
    parser.add_argument("--tenants", type=int, default=50_000)
    args = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="omnigate-bench-")
    os.chmod(folder, 0o755)
    bench = proxy.Bench(folder)
    try:
        up = bench.start_upstream()
        {"refusals": refusals, "tenants": tenants}[args.what](bench, up, args)
    finally:
        bench.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
