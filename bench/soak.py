#!/usr/bin/env python3
"""Keeps a gateway under steady load for a long time while its tasks are killed at random, and says whether it stays flat.

    bench/soak.py [--minutes 30] [--rate 400] [--clients 16] [--seed N] [--profile quick]

The node is the gateway inside `svc/svc-gateway/tests/soak.rs`, because only there can a task be ended as a crash would end
it. Every 3 to 6 seconds one of its tasks is killed: the listener, the pool sweeper, the upstream watch, the access log's
writer; none of them so often that its supervisor gives it up. Half of the clients keep their connections, the others
connect for each request, so that a listener that is away would be noticed.

It prints what the first and the last tenth of the time were like: p95, memory, tasks, file descriptors. The verdict is
`flat` if nothing failed, everything that was killed came back, and the end is like the beginning; else the exit code is 1.
"""
import argparse, json, os, random, socket, statistics, subprocess, sys, threading, time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
VICTIMS = ["listener", "pool_sweeper", "upstream_watch", "access_log_writer"]
# A supervisor gives a task up that fails more than five times in a minute.
SAME_AGAIN = 15
REQUEST = b"GET /soak HTTP/1.1\r\nhost: soak\r\n%s\r\n"


class Node:
    """The node's process, and what is told and asked on its standard input."""

    def __init__(self, profile):
        cargo = ["cargo", "test", "-p", "svc-gateway", "--test", "soak", "--profile", profile, "--locked"]
        built = subprocess.run(cargo + ["--no-run", "--message-format=json"], cwd=ROOT, check=True, stdout=subprocess.PIPE)
        messages = map(json.loads, built.stdout.decode().splitlines())
        program = [m["executable"] for m in messages if m.get("executable") and m["target"]["name"] == "soak"][-1]
        self.process = subprocess.Popen(
            [program, "--ignored", "--nocapture"], cwd=os.path.join(ROOT, "svc/svc-gateway"),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        address, pid = self.line().split()
        host, port = address.rsplit(":", 1)
        self.address, self.pid = (host, int(port)), int(pid)
        self.lock = threading.Lock()

    def line(self):
        for line in self.process.stdout:
            if line.startswith("soak: "):
                return line[len("soak: "):].strip()
        sys.exit("the node ended")

    def ask(self, text):
        with self.lock:
            self.process.stdin.write(text + "\n")
            self.process.stdin.flush()
            return self.line()

    def look(self):
        """Memory in KiB, tasks that run and all of them, children, restarts, descriptors."""
        with open(f"/proc/{self.pid}/status") as status:
            memory = next(int(line.split()[1]) for line in status if line.startswith("VmRSS:"))
        running, known, children, restarts = map(int, self.ask("tasks").split())
        fds = len(os.listdir(f"/proc/{self.pid}/fd"))
        return {"rss": memory, "running": running, "known": known, "children": children, "restarts": restarts, "fds": fds}

    def stop(self):
        self.process.stdin.close()
        return self.process.wait(timeout=30)


class Load:
    """Clients that ask at a steady rate; what each answer took, and what went wrong."""

    def __init__(self, node, clients, rate):
        self.node, self.every, self.end = node, clients / rate, threading.Event()
        self.took, self.failures, self.lock = [], [], threading.Lock()
        self.threads = [threading.Thread(target=self.client, args=(i,), daemon=True) for i in range(clients)]
        for thread in self.threads:
            thread.start()

    def client(self, number):
        keeps, connection = number % 2 == 0, None
        due = time.monotonic() + self.every * random.random()
        while not self.end.wait(max(0.0, due - time.monotonic())):
            due += self.every
            began = time.monotonic()
            try:
                if connection is None:
                    connection = socket.create_connection(self.node.address, timeout=10)
                    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connection.sendall(REQUEST % (b"" if keeps else b"connection: close\r\n"))
                self.answer(connection)
                with self.lock:
                    self.took.append((began, time.monotonic() - began))
                if not keeps:
                    connection.close()
                    connection = None
            except OSError as error:
                connection = None
                with self.lock:
                    self.failures.append(repr(error))
            # A machine that stood still is no reason to catch up all at once.
            due = max(due, time.monotonic() - 1)

    @staticmethod
    def answer(connection):
        text = b""
        while b"fine" not in text:
            piece = connection.recv(4096)
            if not piece or not (text + piece).startswith(b"HTTP/1.1 200 "[:len(text + piece)]):
                raise OSError(f"answered {(text + piece)[:40]!r}")
            text += piece

    def p95(self, since, until):
        with self.lock:
            these = sorted(took for began, took in self.took if since <= began < until)
        return these[int(len(these) * 0.95)] * 1000 if these else float("nan")


def wreck(node, until, chance):
    """Kills tasks until then; returns how many."""
    killed, last = 0, {}
    while time.monotonic() < until:
        time.sleep(chance.uniform(3, 6))
        ready = [task for task in VICTIMS if time.monotonic() - last.get(task, 0) > SAME_AGAIN]
        if ready and time.monotonic() < until:
            task = chance.choice(ready)
            last[task] = time.monotonic()
            killed += node.ask(f"kill {task}") == "true"
    return killed


def judge(first, last, failures, killed):
    """What is not flat."""
    complaints = []
    if failures:
        complaints.append(f"{len(failures)} requests failed, the first with {failures[0]}")
    if last["restarts"] - first["restarts"] != killed:
        complaints.append(f"{killed} tasks were killed and {last['restarts'] - first['restarts']} restarted")
    if last["running"] != first["running"] or last["known"] != first["known"]:
        complaints.append("not every task is back")
    if last["fds"] > first["fds"] + 8:
        complaints.append("file descriptors are left open")
    if last["rss"] > first["rss"] * 1.15 + 4096:
        complaints.append("memory grows")
    if last["p95"] > first["p95"] * 1.5 + 1:
        complaints.append("answers have become slower")
    return complaints


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--rate", type=float, default=400, help="requests a second")
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--profile", default="quick", help="how the node is built")
    args = parser.parse_args()
    print(f"seed {args.seed}", file=sys.stderr)
    node = Node(args.profile)
    load = Load(node, args.clients, args.rate)
    try:
        # The allocator and the pools find their size first.
        time.sleep(min(20.0, args.minutes * 6))
        began, length = time.monotonic(), args.minutes * 60
        until, part = began + length, length / 10
        looks, over = [], threading.Event()

        def watch():
            while not over.wait(1):
                looks.append((time.monotonic(), node.look()))

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        killed = wreck(node, until - 2, random.Random(args.seed))
        time.sleep(max(0.0, until - time.monotonic()))
        over.set()
        watcher.join()
    finally:
        load.end.set()

    def like(since, to):
        these = [look for at, look in looks if since <= at < to]
        middle = {key: statistics.median(look[key] for look in these) for key in these[0]}
        return {**middle, "p95": load.p95(since, to)}

    # Whoever was just killed is on its way back: the end is what is there after the last.
    first, last = like(began, began + part), like(until - part, until + 5)
    first["restarts"], last["restarts"] = looks[0][1]["restarts"], node.look()["restarts"]
    print(f"{args.minutes:g} minutes, {len(load.took)} requests, {len(load.failures)} failed, {killed} tasks killed\n")
    print("| | first tenth | last tenth |\n|---|---|---|")
    for title, key, scale, unit in [
        ("p95", "p95", 1, "ms"), ("RSS", "rss", 1 / 1024, "MiB"), ("tasks running", "running", 1, ""),
        ("connections and other children", "children", 1, ""), ("file descriptors", "fds", 1, ""),
    ]:
        digits = 2 if unit else 0
        print(f"| {title} | {first[key] * scale:.{digits}f} {unit} | {last[key] * scale:.{digits}f} {unit} |")
    complaints = judge(first, last, load.failures, killed)
    code = node.stop()
    if code != 0:
        complaints.append(f"the node ended with {code}")
    print("\nflat" if not complaints else "\nnot flat: " + "; ".join(complaints))
    sys.exit(1 if complaints else 0)


if __name__ == "__main__":
    main()
