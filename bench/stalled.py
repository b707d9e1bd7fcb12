#!/usr/bin/env python3
"""Measures whether clients that do not read slow the edge down for those who do.

    bench/stalled.py [--stalled 1000] [--addresses 8] [--requests 400] [--binary target/dist/omnigate]

A node serves small files, which are in RAM, files that are on the disk only, and large ones. First one client asks for the
small and the cold files and for `/metrics`, one after the other, and the latencies of each are noted. Then so many clients at
127.0.0.1 and the next addresses ask for large files and read as little as is needed not to be cut off for their rate, 2 KiB
every four seconds, and the same is measured again. Printed are the medians and the 99th percentiles without and with them, in
milliseconds; the exit code is 1 if a 99th percentile has grown by more than --limit milliseconds, or if more than a tenth of
them are not being sent anything. Everything is on loopback.
"""
import argparse, contextlib, multiprocessing, os, resource, socket, subprocess, sys, tempfile, time, urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CONFIG = """
[log]
level = "warn"
[admin]
listen = "127.0.0.1:{admin}"
[gateway]
enabled = false
[edge]
enabled = true
listen = "127.0.0.1:{port}"
roots = ["public"]
max_conns = 4096
write_timeout = "60s"
ram_bytes = "1MiB"
ingress = {{ rps_limit = 0 }}
"""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Client:
    """A keep-alive connection from an address of its own."""

    def __init__(self, port, source):
        self.socket = socket.create_connection(("127.0.0.1", port), 60, (source, 0))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.reader = self.socket.makefile("rb")
        self.host = f"127.0.0.1:{port}"

    def get(self, path):
        """The status and the time it took, in milliseconds."""
        began = time.perf_counter()
        self.socket.sendall(f"GET {path} HTTP/1.1\r\nhost: {self.host}\r\n\r\n".encode())
        status, length = int(self.reader.readline().split()[1]), 0
        while (line := self.reader.readline()) not in (b"\r\n", b""):
            name, value = line.split(b":", 1)
            if name.lower() == b"content-length":
                length = int(value)
        self.reader.read(length)
        return status, (time.perf_counter() - began) * 1000


def measure(port, admin, requests):
    edge, other = Client(port, "127.0.0.200"), Client(admin, "127.0.0.1")
    paths = {
        "hot file": (edge, lambda n: "/edge/assets/hot.bin"),
        "cold file": (edge, lambda n: f"/edge/assets/cold-{n % 200}.bin"),
        "/metrics": (other, lambda n: "/metrics"),
    }
    times = {name: [] for name in paths}
    for n in range(requests):
        for name, (client, path) in paths.items():
            status, took = client.get(path(n))
            if status != 200:
                sys.exit(f"{name}: status {status}")
            times[name].append(took)
    at = lambda values, part: sorted(values)[min(len(values) - 1, int(len(values) * part))]
    return {name: (at(values, 0.5), at(values, 0.99)) for name, values in times.items()}


def stall(port, source, path):
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    s.bind((source, 0))
    s.connect(("127.0.0.1", port))
    s.sendall(f"GET {path} HTTP/1.1\r\nhost: a\r\n\r\n".encode())
    s.setblocking(False)
    return s


def stall_many(port, admin, count, addresses, opened):
    """Opens the stalled readers, tells when all are open, and has them read a little until the process is ended."""
    stalled = []
    for n in range(count):
        stalled.append(stall(port, f"127.0.0.{1 + n % addresses}", f"/edge/assets/large-{n // addresses % 8}.bin"))
        # Some at a time: as many requests at once as there are places would be refused.
        last = time.monotonic() + 1
        while len(stalled) % 100 == 0 and metric(admin, "edge_transfers") < len(stalled) and time.monotonic() < last:
            time.sleep(0.1)
    opened.set()
    while True:
        time.sleep(4)
        for s in stalled:
            with contextlib.suppress(OSError):
                s.recv(2048)


def metric(admin, name):
    text = urllib.request.urlopen(f"http://127.0.0.1:{admin}/metrics", timeout=60).read().decode()
    return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(name + "{"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stalled", type=int, default=1000)
    parser.add_argument("--addresses", type=int, default=8)
    parser.add_argument("--requests", type=int, default=400)
    parser.add_argument("--limit", type=float, default=10.0, help="by how many milliseconds a 99th percentile may grow")
    parser.add_argument("--binary", default=os.path.join(ROOT, "target/dist/omnigate"))
    args = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with tempfile.TemporaryDirectory(prefix="omnigate-stalled-") as folder:
        public = os.path.join(folder, "public")
        os.mkdir(public)
        files = {"hot.bin": 1024} | {f"cold-{n}.bin": 100_000 for n in range(200)} | {f"large-{n}.bin": 24 << 20 for n in range(8)}
        for name, size in files.items():
            with open(os.path.join(public, name), "wb") as f:
                f.write(os.urandom(size))
        port, admin = free_port(), free_port()
        with open(os.path.join(folder, "omnigate.toml"), "w") as f:
            f.write(CONFIG.format(port=port, admin=admin))
        node = subprocess.Popen([os.path.abspath(args.binary), "up", "--config", "omnigate.toml"], cwd=folder)
        try:
            deadline = time.monotonic() + 60
            while True:
                try:
                    Client(admin, "127.0.0.1").get("/healthz")
                    break
                except OSError:
                    if time.monotonic() > deadline:
                        sys.exit("the node does not start")
                    time.sleep(0.1)
            # Hashed first, so that those who stall do nothing but read pieces.
            warm = Client(port, "127.0.0.200")
            for n in range(8):
                while warm.get(f"/edge/assets/large-{n}.bin")[0] != 200:
                    time.sleep(0.5)
            # Files that were just written are hashed once more when they have settled.
            time.sleep(4)
            measure(port, admin, 50)
            before = measure(port, admin, args.requests)
            opened = multiprocessing.Event()
            crowd = multiprocessing.Process(
                target=stall_many, args=(port, admin, args.stalled, args.addresses, opened), daemon=True)
            crowd.start()
            opened.wait(120)
            sending = metric(admin, "edge_transfers")
            after = measure(port, admin, args.requests)
            left = metric(admin, "edge_transfers")
            rss = next(line for line in open(f"/proc/{node.pid}/status") if line.startswith("VmRSS"))
            grown = 0.0
            print(f"{'':10} {'median':>8} {'p99':>8} {'median':>10} {'p99':>8}   ms, without and with {args.stalled} stalled readers")
            for name in before:
                (m0, p0), (m1, p1) = before[name], after[name]
                grown = max(grown, p1 - p0)
                print(f"{name:10} {m0:8.2f} {p0:8.2f} {m1:10.2f} {p1:8.2f}")
            print(f"being sent: {sending:.0f} before, {left:.0f} after; memory {rss.split(':')[1].strip()}; p99 grew by at most {grown:.2f} ms")
            crowd.terminate()
            if min(sending, left) < 0.9 * args.stalled:
                sys.exit("more than a tenth of them are not being sent anything")
            sys.exit(1 if grown > args.limit else 0)
        finally:
            node.terminate()
            node.wait(60)


if __name__ == "__main__":
    main()
