#!/usr/bin/env python3
"""Measures the gateway beside nginx and HAProxy: CPU per request, throughput, latency, memory per idle connection.

    bench/proxy.py [--reps 6] [--secs 3] [--peers omnigate,haproxy,nginx,floor] [--cases tiny,64k,post] [--idle 2000] [--json FILE]

Everything runs on loopback, on free ports, in a temporary folder that is removed at the end. The peers are started
side by side in front of one nginx that answers; runs are interleaved, and what counts is the median of the ratios
within a round, because the machine's speed changes from one minute to the next. CPU is user + system time of the
peer's process tree over the run, divided by the requests it answered.

`floor` is a relay of bytes that looks at nothing (bench/floor): no proxy can cost less. `omnigate-bare` is the gateway
without quotas and admission, `omnigate-shared` the one with the shared runtime, and `omnigate:FILE` another build of it.

Needs: wrk, nginx, haproxy (Debian packages), a build as it is shipped (cargo build --profile dist), and for `floor` one of its own
(cd bench/floor && cargo build --release).
"""
import argparse, contextlib, json, os, re, resource, shutil, signal, socket, statistics, subprocess, sys, tempfile, time

HZ = os.sysconf("SC_CLK_TCK")
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


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


def tree(pid):
    pids = [pid]
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children") as f:
                for child in f.read().split():
                    pids += tree(int(child))
    return pids


def cpu_us(pid):
    """User + system microseconds of a process tree."""
    total = 0
    for p in tree(pid):
        with contextlib.suppress(OSError):
            fields = open(f"/proc/{p}/stat").read().rsplit(")", 1)[1].split()
            total += (int(fields[11]) + int(fields[12])) * 1_000_000 / HZ
    return total


def pss_kib(pid):
    total = 0
    for p in tree(pid):
        with contextlib.suppress(OSError):
            for line in open(f"/proc/{p}/smaps_rollup"):
                if line.startswith("Pss:"):
                    total += int(line.split()[1])
    return total


NGINX = """
worker_processes 2; daemon off; pid {dir}/{name}.pid; error_log {dir}/{name}.err error; worker_rlimit_nofile 20000;
events {{ worker_connections 8192; }}
http {{
  access_log off; tcp_nodelay on; keepalive_requests 100000000; keepalive_timeout 300s; default_type application/octet-stream;
  client_body_temp_path {dir}/{name}_b; proxy_temp_path {dir}/{name}_p; fastcgi_temp_path {dir}/{name}_f;
  uwsgi_temp_path {dir}/{name}_u; scgi_temp_path {dir}/{name}_s;
  {body}
}}
"""
UPSTREAM = """sendfile on; tcp_nopush on; open_file_cache max=1000 inactive=60s;
  server {{ listen 127.0.0.1:{port} backlog=4096; root {dir};
    location = /tiny {{ return 200 "ok"; }}
    location = /post {{ client_body_buffer_size 16k; return 200 "ok"; }}
    location / {{ }} }}"""
# Large buffers, or nginx reads a 64 KiB answer in eight pieces.
NGINX_PROXY = """upstream u {{ server 127.0.0.1:{up}; keepalive 256; keepalive_requests 100000000; }}
  server {{ listen 127.0.0.1:{port} backlog=4096; location / {{
    proxy_pass http://u; proxy_http_version 1.1; proxy_buffer_size 16k; proxy_buffers 8 64k; proxy_busy_buffers_size 128k;
    proxy_max_temp_file_size 0; proxy_request_buffering off; proxy_set_header Connection "";
    proxy_set_header X-Forwarded-For $remote_addr; }} }}"""
HAPROXY = """
global
  nbthread 2
  maxconn 8000
defaults
  mode http
  timeout connect 5s
  timeout client 300s
  timeout server 300s
  timeout http-keep-alive 300s
  option http-keep-alive
  http-reuse always
  option forwardfor
frontend f
  bind 127.0.0.1:{port} backlog 4096
  default_backend b
backend b
  server s1 127.0.0.1:{up} pool-max-conn 512
"""
OMNIGATE = """
[node]
runtime = "{runtime}"
[log]
level = "warn"
[admin]
listen = "127.0.0.1:0"
[gateway]
listen = "127.0.0.1:{port}"
max_conns = 8192
max_conns_per_client = 8192
idle_timeout = "300s"
{layers}
[[gateway.route]]
path = "/"
upstream = "up"
[gateway.upstream.up]
endpoints = ["http://127.0.0.1:{up}"]
"""
# Every layer is on, none refuses.
LAYERS = """quotas = { per_ip_rps = 1000000000, per_cap_rps = 1000000000, burst = 1.0 }
drr = { rate_limit_rps = 1000000000 }
fair_queue = { enabled = true, max_inflight = 512 }"""
BARE = """quotas = { per_ip_rps = 0, per_cap_rps = 0 }
drr = { rate_limit_rps = 0 }
fair_queue = { enabled = false }"""


class Bench:
    def __init__(self, folder):
        self.dir, self.children, self.pids = folder, [], {}

    def write(self, name, text):
        path = os.path.join(self.dir, name)
        with open(path, "w") as f:
            f.write(text)
        return path

    def spawn(self, name, command):
        log = open(os.path.join(self.dir, name.replace("/", "-") + ".log"), "ab")
        child = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=self.dir)
        self.children.append(child)
        self.pids[name] = child.pid

    def stop(self):
        for child in self.children:
            child.terminate()
        for child in self.children:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(5)
            if child.poll() is None:
                child.kill()

    def start_upstream(self):
        port = free_port()
        body = UPSTREAM.format(port=port, dir=self.dir)
        conf = self.write("up.conf", NGINX.format(dir=self.dir, name="up", body=body))
        with open(os.path.join(self.dir, "64k.bin"), "wb") as f:
            f.write(os.urandom(65536))
        self.write("post.lua", 'wrk.method = "POST"\nwrk.body = string.rep("x", 1024)\n')
        self.spawn("up", ["/usr/sbin/nginx", "-c", conf])
        wait_for(port)
        return port

    def start_peer(self, name, up, layers=None):
        port = free_port()
        if name == "nginx":
            body = NGINX_PROXY.format(port=port, up=up)
            command = ["/usr/sbin/nginx", "-c", self.write("nginx.conf", NGINX.format(dir=self.dir, name="px", body=body))]
        elif name == "haproxy":
            command = ["/usr/sbin/haproxy", "-db", "-f", self.write("haproxy.cfg", HAPROXY.format(port=port, up=up))]
        elif name == "floor":
            command = [os.path.join(ROOT, "bench/floor/target/release/floor"), f"127.0.0.1:{port}", f"127.0.0.1:{up}"]
        else:
            runtime = "shared" if name.endswith("-shared") else "per_core"
            layers = layers or (BARE if name.endswith("-bare") else LAYERS)
            text = OMNIGATE.format(port=port, up=up, runtime=runtime, layers=layers)
            conf = self.write(f"omnigate-{port}.toml", text)
            binary = name.partition(":")[2] or os.path.join(ROOT, "target/dist/omnigate")
            command = [os.path.abspath(binary), "up", "--config", conf]
        self.spawn(name, command)
        wait_for(port)
        return port


def wrk(port, case, secs, folder):
    """One run of wrk: a named case, a path, or a path and more arguments."""
    path, extra = case if isinstance(case, tuple) else (case, []) if case.startswith("/") else {
        "tiny": ("/tiny", []),
        "64k": ("/64k.bin", []),
        "post": ("/post", ["-s", folder + "/post.lua"]),
        "close": ("/tiny", ["-H", "Connection: close"]),
    }[case]
    command = ["wrk", "-t2", "-c64", f"-d{secs}s", "--latency", *extra, f"http://127.0.0.1:{port}{path}"]
    out = subprocess.run(command, capture_output=True, text=True, timeout=secs + 30).stdout
    unit = {"us": 1, "ms": 1e3, "s": 1e6}
    latency = {q: float(v) * unit[u] for q, v, u in re.findall(r"(?m)^\s+(50|99)%\s+([\d.]+)(us|ms|s)", out)}
    return {
        "requests": int(re.search(r"(\d+) requests in", out)[1]),
        "rps": float(re.search(r"Requests/sec:\s+([\d.]+)", out)[1]),
        "p50_us": latency.get("50"),
        "p99_us": latency.get("99"),
        "errors": "; ".join(re.findall(r"Non-2xx.*|Socket errors.*", out)),
    }


def compare(bench, ports, args):
    rows = []
    for case in args.cases:
        for port in ports.values():
            wrk(port, case, 1, bench.dir)
        for rep in range(args.reps):
            names = list(ports)
            for name in names[rep % len(names):] + names[:rep % len(names)]:
                before = cpu_us(bench.pids[name])
                row = wrk(ports[name], case, args.secs, bench.dir)
                row |= {"peer": name, "case": case, "rep": rep}
                row["cpu_us"] = (cpu_us(bench.pids[name]) - before) / row["requests"]
                rows.append(row)
                print(f"  {case} {rep + 1}/{args.reps} {name}: {row['cpu_us']:.1f} µs {row['errors']}", file=sys.stderr)
    return rows


def report(rows, base):
    for case in dict.fromkeys(r["case"] for r in rows):
        print(f"\n{case}: | peer | CPU µs per request | ratio to {base} (median of paired) | requests/s | p50 µs | p99 µs |")
        mine = [r for r in rows if r["case"] == case]
        reference = {r["rep"]: r["cpu_us"] for r in mine if r["peer"] == base}
        for peer in dict.fromkeys(r["peer"] for r in mine):
            these = [r for r in mine if r["peer"] == peer]
            middle = lambda key: statistics.median(r[key] for r in these)
            ratio = statistics.median(r["cpu_us"] / reference[r["rep"]] for r in these) if reference else float("nan")
            errors = next((r["errors"] for r in these if r["errors"]), "")
            print(f"| {peer} | {middle('cpu_us'):.1f} | {ratio:.2f} | {middle('rps'):.0f} | {middle('p50_us'):.0f} | {middle('p99_us'):.0f} | {errors}")


def idle(bench, ports, count):
    """KiB of memory per idle connection, measured between 64 and `count` of them."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (count + 500, count + 500))
    print("\n| peer | KiB per idle connection |")
    for name, port in ports.items():
        def connect(n):
            opened = []
            for _ in range(n):
                s = socket.create_connection(("127.0.0.1", port), 5)
                s.sendall(b"GET /tiny HTTP/1.1\r\nHost: bench\r\n\r\n")
                got = b""
                while b"ok" not in got.split(b"\r\n\r\n", 1)[-1]:
                    got += s.recv(4096)
                opened.append(s)
            return opened
        first = connect(64)
        time.sleep(4)
        before = pss_kib(bench.pids[name])
        rest = connect(count - 64)
        time.sleep(4)
        per = (pss_kib(bench.pids[name]) - before) / (count - 64)
        print(f"| {name} | {per:.2f} |")
        for s in first + rest:
            s.close()


def main():
    words = lambda text: [w for w in text.split(",") if w]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reps", type=int, default=6)
    parser.add_argument("--secs", type=int, default=3)
    parser.add_argument("--peers", type=words, default=["omnigate", "haproxy", "nginx"])
    parser.add_argument("--cases", type=words, default=["tiny", "64k", "post"])
    parser.add_argument("--idle", type=int, default=0, help="measure memory with this many idle connections instead")
    parser.add_argument("--json", help="append every run to this file, a line each")
    args = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="omnigate-bench-")
    os.chmod(folder, 0o755)
    bench = Bench(folder)
    try:
        up = bench.start_upstream()
        ports = {name: bench.start_peer(name, up) for name in args.peers}
        if args.idle:
            return idle(bench, ports, args.idle)
        rows = compare(bench, ports, args)
        report(rows, "haproxy")
        if args.json:
            with open(args.json, "a") as f:
                f.writelines(json.dumps(row) + "\n" for row in rows)
    finally:
        bench.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    main()
