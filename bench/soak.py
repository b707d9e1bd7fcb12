#!/usr/bin/env python3
"""Keeps a whole node under mixed load for a long time while its tasks are ended and its file reloaded, and says whether it stays flat.

    bench/soak.py [--minutes 30] [--rate 300] [--clients 16] [--seed N] [--omnigate FILE]

The node runs every service: the gateway passes requests on to a server and answers others from the edge in the same
process, the edge serves a map on its own listener, the overlay takes publications that a second node hears, and the
rewarder pays for epochs of 20 seconds. Half of the clients keep their connections, the others connect for each request.
Every 3 to 6 seconds one of its tasks is ended as a crash would end it (`POST /rehearse/…`), none of them so often that its
supervisor gives it up; the data plane's workers are spared, because their connections end with them. Every 10 seconds the
file changes and is reloaded.

It prints what the first and the last tenth of the time were like: p95, memory, tasks, file descriptors. The verdict is
`flat` if no request failed, everything that was ended came back, every reload was taken, epochs were paid, and the end is
like the beginning; else the exit code is 1. One client asks the server without the node: what became slower for it as well
is the machine's doing.

Needs a build as it is shipped (cargo build --profile dist). Everything is on loopback, in a temporary folder that is removed.
"""
import argparse, contextlib, json, os, random, shutil, signal, socket, socketserver, statistics, subprocess
import sys, tempfile, threading, time, urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# A supervisor gives a task up that fails more than five times in a minute.
SAME_AGAIN = 15
TERMS = {
    "format": "omnigate-policy/1", "id": "default", "version": 1, "ruleset": 1, "pool": "1000000",
    "weights_ppm": {"provided.bytes": 1000, "provided.answers": 1000000, "provided.requests": 1000000},
    "cap_ppm": 1000000, "min_payout": "1", "residual": {"rule": "keep"}, "first_epoch": 0, "last_epoch": None,
}


def free_ports(count):
    held = [socket.socket() for _ in range(count)]
    for one in held:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports


class Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """What is behind the gateway."""

    daemon_threads, allow_reuse_address, request_queue_size = True, True, 128

    class Answer(socketserver.StreamRequestHandler):
        def handle(self):
            self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for line in self.rfile:
                if line == b"\r\n":
                    self.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nfine")

    def __init__(self):
        super().__init__(("127.0.0.1", 0), self.Answer)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, *_):
        """A client that goes away is no news."""


class Node:
    """The node under test, and another one that hears what it publishes."""

    def __init__(self, program, folder):
        self.program, self.folder, self.reloads = program, folder, 0
        self.server = Server()
        self.gateway, self.edge, self.overlay, self.rewarder, self.admin, far, self.far_admin = free_ports(7)
        self.run("pack", "make", "--demo", "--zoom", "3", f"{folder}/world.pmtiles")
        self.key = self.run("policy", "keygen", f"{folder}/policy.key").strip()
        with open(f"{folder}/terms.json", "w") as f:
            json.dump(TERMS, f)
        with open(f"{folder}/policy.json", "w") as f:
            f.write(self.run("policy", "sign", f"{folder}/terms.json", "--key", f"{folder}/policy.key"))
        self.write_config()
        self.fund()
        with open(f"{folder}/far.toml", "w") as f:
            f.write(f"""[node]
name = "far"
data_dir = "{folder}/far"
[admin]
listen = "127.0.0.1:{self.far_admin}"
[overlay]
enabled = true
listen = "127.0.0.1:{far}"
security = "plaintext"
topics = ["soak"]
peers = ["{self.run("node", "id", "--config", f"{folder}/node.toml").split()[0]}@127.0.0.1:{self.overlay}"]
""")
        self.process = self.start("up", "node")
        self.wait_for(self.admin)
        self.far = self.start("overlay", "far")
        self.wait_for(self.far_admin)

    def run(self, *words):
        ended = subprocess.run([self.program, *words], capture_output=True, text=True, timeout=60)
        if ended.returncode != 0:
            sys.exit(f"{' '.join(words)}: {ended.stderr}")
        return ended.stdout

    def fund(self):
        url = f"sqlite:{self.folder}/data/ledger.db"
        os.makedirs(f"{self.folder}/data", exist_ok=True)
        self.run("ledger", "open", "issuer", "--asset", "CREDIT", "--issuer", "--url", url)
        self.run("ledger", "open", "pool/rewards", "--asset", "CREDIT", "--url", url)
        self.run("ledger", "transfer", "--from", "issuer", "--to", "pool/rewards", "--amount", "1000000000", "--key", "soak", "--url", url)

    def write_config(self):
        """The configuration, of which each one differs from the one before."""
        folder = self.folder
        text = f"""[node]
name = "soak"
data_dir = "{self.folder}/data"
[log]
level = "error"
[admin]
listen = "127.0.0.1:{self.admin}"
rehearse = true
[gateway]
listen = "127.0.0.1:{self.gateway}"
max_conns_per_client = 1024
quotas = {{ per_ip_rps = 0, per_cap_rps = 0 }}
drr = {{ rate_limit_rps = 0 }}
fair_queue = {{ max_inflight = {100 + self.reloads % 2} }}
route = [{{ path = "/edge/", service = "edge" }}, {{ path = "/", upstream = "app" }}]
[gateway.upstream.app]
endpoints = ["http://127.0.0.1:{self.server.server_address[1]}"]
[edge]
enabled = true
listen = "127.0.0.1:{self.edge}"
packs = ["{folder}/world.pmtiles"]
[overlay]
enabled = true
listen = "127.0.0.1:{self.overlay}"
security = "plaintext"
topics = ["soak"]
[rewarder]
enabled = true
listen = "127.0.0.1:{self.rewarder}"
policy_files = ["{folder}/policy.json"]
policy_keys = ["{self.key}"]
epoch_duration = "20s"
max_epoch_skew = "2s"
"""
        with open(f"{folder}/node.toml.new", "w") as f:
            f.write(text)
        os.rename(f"{folder}/node.toml.new", f"{folder}/node.toml")

    def start(self, command, name):
        with open(f"{self.folder}/{name}.log", "w") as log:
            words = [self.program, command, "--config", f"{self.folder}/{name}.toml"]
            return subprocess.Popen(words, stdout=log, stderr=log)

    def wait_for(self, admin):
        for _ in range(600):
            with contextlib.suppress(OSError):
                if self.ask("/readyz", admin=admin):
                    return
            time.sleep(0.1)
        sys.exit("a node did not become ready; " + open(f"{self.folder}/node.log").read()[-2000:])

    def ask(self, path, body=None, admin=None):
        """What the admin listener answers; asked again if that listener is the one that was just ended."""
        request = urllib.request.Request(f"http://127.0.0.1:{admin or self.admin}{path}", body, {"X-Omnigate": "1"})
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.read().decode()

    def reload(self):
        self.reloads += 1
        self.write_config()
        self.process.send_signal(signal.SIGHUP)

    def tasks(self):
        """Every instance of a restarted task as `service/task`, with its state and restarts."""
        for service in json.loads(self.ask("/topology"))["services"]:
            for task in service["tasks"]:
                for one in task["instances"]:
                    yield service["service"], task, one

    def victims(self):
        spared = {("gateway", "worker"), ("edge", "worker")}
        return [
            f"{service}/{one['name']}" for service, task, one in self.tasks()
            if task["restart"]["when"] == "on_failure" and (service, task["name"]) not in spared and one["state"] == "running"
        ]

    def metric(self, name):
        lines = self.ask("/metrics").splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith((name + "{", name + " ")))

    def look(self):
        """Memory in KiB, tasks that run and all of them, restarts, descriptors."""
        with open(f"/proc/{self.process.pid}/status") as status:
            memory = next(int(line.split()[1]) for line in status if line.startswith("VmRSS:"))
        all_of_them = [(f"{service}/{one['name']}", one) for service, _, one in self.tasks()]
        return {
            "rss": memory, "fds": len(os.listdir(f"/proc/{self.process.pid}/fd")), "known": len(all_of_them),
            "away": [f"{name} {one['state']}" for name, one in all_of_them if one["state"] != "running"],
            "running": sum(one["state"] == "running" for _, one in all_of_them),
            "restarts": sum(one["restarts"] for _, one in all_of_them),
        }

    def settled(self):
        epochs = json.loads(self.ask("/rewarder/epochs?limit=100"))["epochs"]
        return sum(epoch["state"] == "settled" for epoch in epochs), len(epochs)

    def stop(self):
        codes = []
        for process in (self.far, self.process):
            process.send_signal(signal.SIGTERM)
            codes.append(process.wait(timeout=30))
        return codes


class Load:
    """Clients that ask at a steady rate; what each answer took, and what went wrong."""

    def __init__(self, node, clients, rate):
        self.node, self.every, self.end = node, clients / rate, threading.Event()
        self.took, self.control, self.failures, self.lock = [], [], [], threading.Lock()
        tile = b"/edge/tiles/world/3/%d/%d"
        kinds = [(node.gateway, b"/soak"), (node.gateway, tile), (node.edge, tile)]
        each = [(*kinds[number % len(kinds)], number % 2 == 0, self.took) for number in range(clients)]
        for one in [*each, (node.server.server_address[1], b"/soak", True, self.control)]:
            threading.Thread(target=self.client, args=one, daemon=True).start()

    def client(self, port, path, keeps, took):
        connection = None
        due = time.monotonic() + self.every * random.random()
        while not self.end.wait(max(0.0, due - time.monotonic())):
            due += self.every
            began = time.monotonic()
            try:
                if connection is None:
                    connection = socket.create_connection(("127.0.0.1", port), timeout=10)
                    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                asked = path % (random.randrange(8), random.randrange(8)) if b"%" in path else path
                connection.sendall(b"GET %s HTTP/1.1\r\nhost: soak\r\n%s\r\n" % (asked, b"" if keeps else b"connection: close\r\n"))
                self.answer(connection)
                with self.lock:
                    took.append((began, time.monotonic() - began))
                if not keeps:
                    connection.close()
                    connection = None
            except OSError as error:
                connection = None
                with self.lock:
                    self.failures.append(f"{path.decode()}: {error!r}")
            # A machine that stood still is no reason to catch up all at once.
            due = max(due, time.monotonic() - 1)

    @staticmethod
    def answer(connection):
        """Reads one whole answer, which is a good one."""
        text = b""
        while b"\r\n\r\n" not in text:
            text += Load.more(connection, text)
        head, _, body = text.partition(b"\r\n\r\n")
        if not head.startswith((b"HTTP/1.1 200 ", b"HTTP/1.1 204 ")):
            raise OSError(f"answered {head[:300]!r} {body[:300]!r}")
        fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
        while len(body) < int(fields.get(b"content-length", b"0")):
            body += Load.more(connection, head)

    @staticmethod
    def more(connection, so_far):
        piece = connection.recv(1 << 16)
        if not piece:
            raise OSError(f"ended after {so_far[:60]!r}")
        return piece

    def p95(self, measured, since, until):
        with self.lock:
            these = sorted(took for began, took in measured if since <= began < until)
        return these[int(len(these) * 0.95)] * 1000 if these else float("nan")


class Gossip:
    """A publication ten times a second at the node, and what the other node hears and misses of them."""

    def __init__(self, node):
        self.node, self.end, self.published, self.heard, self.named = node, threading.Event(), 0, 0, 0
        threading.Thread(target=self.listen, daemon=True).start()
        time.sleep(1)
        threading.Thread(target=self.publish, daemon=True).start()

    def publish(self):
        while not self.end.wait(0.1):
            with contextlib.suppress(OSError):
                # `local_only` is heard as well, once the other node is back.
                verdict = json.loads(self.node.ask("/overlay/pub/soak", b"x" * 256))["verdict"]
                self.published += verdict in ("accepted", "local_only")

    def listen(self):
        stream = urllib.request.urlopen(f"http://127.0.0.1:{self.node.far_admin}/overlay/sub/soak", timeout=60)
        event = b""
        for line in stream:
            if line.startswith(b"event:"):
                event = line.split(b":", 1)[1].strip()
            elif line.startswith(b"data:"):
                if event == b"gap":
                    gap = json.loads(line[5:])
                    self.named += gap["to"] - gap["from"] + 1
                else:
                    self.heard += 1


def wreck(node, until, chance):
    """Ends tasks and reloads until then; returns what was ended, and how often."""
    killed, last, reload_at = {}, {}, time.monotonic() + 10
    while time.monotonic() < until:
        time.sleep(chance.uniform(3, 6))
        if time.monotonic() >= until:
            break
        if time.monotonic() >= reload_at:
            node.reload()
            reload_at += 10
        with contextlib.suppress(OSError):
            ready = [task for task in node.victims() if time.monotonic() - last.get(task, 0) > SAME_AGAIN]
            task = chance.choice(ready)
            last[task] = time.monotonic()
            node.ask("/rehearse/" + task.replace("#", "%23"), b"")
            killed[task] = killed.get(task, 0) + 1
    return killed


def judge(first, last, failures, killed, reloads, paid):
    """What is not flat."""
    complaints = []
    if failures:
        complaints.append(f"{len(failures)} requests failed, the first with {failures[0]}")
    if last["restarts"] - first["restarts"] < killed:
        complaints.append(f"{killed} tasks were ended and {last['restarts'] - first['restarts']} restarted")
    if last["away"]:
        complaints.append(f"not back: {', '.join(last['away'])}")
    if last["fds"] > first["fds"] + 8:
        complaints.append("file descriptors are left open")
    if last["rss"] > first["rss"] * 1.15 + 4096:
        complaints.append("memory grows")
    if last["p95"] > (first["p95"] + max(0.0, last["control"] - first["control"])) * 1.5 + 1:
        complaints.append("answers have become slower")
    if reloads[0] < reloads[1]:
        complaints.append(f"{reloads[0]} of {reloads[1]} reloads were taken")
    if paid[0] < paid[1] - 2:
        complaints.append(f"{paid[0]} of {paid[1]} epochs are paid")
    return complaints


def soak(args, node):
    load, gossip = Load(node, args.clients, args.rate), Gossip(node)
    try:
        # The allocator and the pools find their size first.
        time.sleep(min(30.0, args.minutes * 6))
        began, length = time.monotonic(), args.minutes * 60
        until, part = began + length, length / 10
        looks, over = [], threading.Event()
        updates, before = node.metric("config_update_total"), node.look()["restarts"]

        def watch():
            while not over.wait(2):
                with contextlib.suppress(OSError):
                    looks.append((time.monotonic(), node.look()))

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        killed = wreck(node, until - 5, random.Random(args.seed))
        time.sleep(max(0.0, until - time.monotonic()))
        over.set()
        watcher.join()
    finally:
        load.end.set()
        gossip.end.set()

    def like(since, to):
        these = [look for at, look in looks if since <= at < to]
        middle = {key: statistics.median(look[key] for look in these) for key in ("rss", "fds", "running")}
        return {**middle, "p95": load.p95(load.took, since, to), "control": load.p95(load.control, since, to)}

    first, last = like(began, began + part), like(until - part, until + 5)
    # Whoever was just ended is on its way back: the end is what is there after the last.
    end = node.look()
    first["restarts"], last["restarts"], last["away"] = before, end["restarts"], end["away"]
    reloads, paid = (node.metric("config_update_total") - updates, node.reloads), node.settled()
    total = sum(killed.values())
    print(f"{args.minutes:g} minutes, {len(load.took)} requests, {len(load.failures)} failed; {total} tasks ended, "
          f"{len(killed)} different ones; {node.reloads} reloads; {paid[0]} of {paid[1]} epochs paid; "
          f"{gossip.published} publications, {gossip.heard} heard, {gossip.named} named as missing\n")
    print("| | first tenth | last tenth |\n|---|---|---|")
    for title, key, scale, unit in [
        ("p95", "p95", 1, "ms"), ("p95 without the node", "control", 1, "ms"), ("RSS", "rss", 1 / 1024, "MiB"), ("tasks running", "running", 1, ""),
        ("file descriptors", "fds", 1, ""),
    ]:
        digits = 2 if unit else 0
        print(f"| {title} | {first[key] * scale:.{digits}f} {unit} | {last[key] * scale:.{digits}f} {unit} |")
    return judge(first, last, load.failures, total, reloads, paid)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--rate", type=float, default=300, help="requests a second")
    parser.add_argument("--clients", type=int, default=18)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--omnigate", default=os.path.join(ROOT, "target/dist/omnigate"))
    args = parser.parse_args()
    print(f"seed {args.seed}", file=sys.stderr)
    folder = tempfile.mkdtemp(prefix="omnigate-soak-")
    node = Node(args.omnigate, folder)
    try:
        complaints = soak(args, node)
    finally:
        codes = node.stop()
        log = open(f"{folder}/node.log").read()
        shutil.rmtree(folder, ignore_errors=True)
    if any(codes):
        complaints.append(f"the nodes ended with {codes}: {log[-1000:]}")
    print("\nflat" if not complaints else "\nnot flat: " + "; ".join(complaints))
    sys.exit(1 if complaints else 0)


if __name__ == "__main__":
    main()
