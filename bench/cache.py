#!/usr/bin/env python3
"""Measures a hit of the gateway's cache beside nginx's proxy_cache and Varnish: CPU per request, throughput, latency.

    bench/cache.py [--reps 8] [--secs 3] [--peers omnigate,nginx,varnish] [--cases 1k,64k] [--json FILE]

The peers run side by side in front of one nginx whose answers are fresh for an hour; each is asked once before anything
is measured, and the server is asked nothing after that (checked by its log). Runs are interleaved, and CPU is counted as in
proxy.py. nginx stores in files, which the kernel keeps in memory, and sends them with sendfile; Varnish stores in memory;
the gateway checks what it serves against its hash. `omnigate:FILE` is another build of it.

Needs what proxy.py needs, and varnish (a Debian package).
"""
import argparse, json, os, shutil, sys, tempfile, time, urllib.request

import proxy

UPSTREAM = """log_format one '$request_uri'; access_log {dir}/asked.log one;
  server {{ listen 127.0.0.1:{port}; root {dir}; add_header Cache-Control "public, max-age=3600"; }}"""
NGINX = """proxy_cache_path {dir}/store levels=1:2 keys_zone=zone:10m max_size=1g inactive=60m use_temp_path=off;
  sendfile on; open_file_cache max=1000 inactive=60s;
  server {{ listen 127.0.0.1:{port} backlog=4096; location / {{
    proxy_pass http://127.0.0.1:{up}; proxy_http_version 1.1; proxy_set_header Connection "";
    proxy_cache zone; proxy_cache_lock on; proxy_cache_use_stale updating; add_header X-Cache $upstream_cache_status; }} }}"""
VARNISH = """vcl 4.1;
backend default {{ .host = "127.0.0.1"; .port = "{up}"; }}"""


def start(bench, name, up):
    port = proxy.free_port()
    if name == "nginx":
        text = proxy.NGINX.format(dir=bench.dir, name="cache", body=NGINX.format(dir=bench.dir, port=port, up=up))
        bench.spawn(name, ["/usr/sbin/nginx", "-c", bench.write("cache.conf", text)])
    elif name == "varnish":
        script = bench.write("default.vcl", VARNISH.format(up=up))
        bench.spawn(name, ["/usr/sbin/varnishd", "-F", "-a", f"127.0.0.1:{port}", "-f", script, "-s", "malloc,256m",
                           "-n", os.path.join(bench.dir, "varnish"), "-j", "none"])
    else:
        text = proxy.OMNIGATE.format(port=port, up=up, runtime="per_core", layers=proxy.LAYERS)
        text = text.replace('path = "/"\n', 'path = "/"\ncache = {}\n')
        text = text.replace("[node]\n", f'[node]\ndata_dir = "{bench.dir}/data-{port}"\n')
        binary = name.partition(":")[2] or os.path.join(proxy.ROOT, "target/dist/omnigate")
        bench.spawn(name, [os.path.abspath(binary), "up", "--config", bench.write(f"omnigate-{port}.toml", text)])
    proxy.wait_for(port)
    return port


def main():
    words = lambda text: [w for w in text.split(",") if w]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reps", type=int, default=8)
    parser.add_argument("--secs", type=int, default=3)
    parser.add_argument("--peers", type=words, default=["omnigate", "nginx", "varnish"])
    parser.add_argument("--cases", type=words, default=["1k", "64k"])
    parser.add_argument("--json", help="append every run to this file, a line each")
    args = parser.parse_args()
    sizes = {"1k": 1024, "64k": 65536}
    folder = tempfile.mkdtemp(prefix="omnigate-bench-")
    os.chmod(folder, 0o755)
    bench = proxy.Bench(folder)
    try:
        for case in args.cases:
            with open(os.path.join(folder, case), "wb") as f:
                f.write(os.urandom(sizes[case]))
        up = proxy.free_port()
        text = proxy.NGINX.format(dir=folder, name="up", body=UPSTREAM.format(dir=folder, port=up)).replace("access_log off;", "")
        bench.spawn("up", ["/usr/sbin/nginx", "-c", bench.write("up.conf", text)])
        proxy.wait_for(up)
        ports = {name: start(bench, name, up) for name in args.peers}
        for case in args.cases:
            for name, port in ports.items():
                for _ in range(3):
                    body = urllib.request.urlopen(f"http://127.0.0.1:{port}/{case}", timeout=10).read()
                    if len(body) != sizes[case]:
                        sys.exit(f"{name} answers {len(body)} bytes for {case}")
        time.sleep(1)
        asked = os.path.getsize(os.path.join(folder, "asked.log"))
        args.cases = [f"/{case}" for case in args.cases]
        rows = proxy.compare(bench, ports, args)
        if os.path.getsize(os.path.join(folder, "asked.log")) != asked:
            sys.exit("the server was asked while hits were measured")
        for base in ("nginx", "varnish"):
            if base in ports:
                proxy.report(rows, base)
        if args.json:
            with open(args.json, "a") as f:
                f.writelines(json.dumps(row) + "\n" for row in rows)
    finally:
        bench.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
