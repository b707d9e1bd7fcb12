#!/usr/bin/env python3
"""Measures the edge beside nginx (plain files) and martin (tiles): CPU per request, throughput, latency.

    bench/edge.py [--reps 6] [--secs 3] [--martin FILE] [--cases 1k,64k,range,tiles-pm,tiles-mb] [--json FILE]

Everything runs on loopback, on free ports, in a temporary folder that is removed at the end. Runs are interleaved, and
what counts is the median of the ratios within a round. The tiles are those of the demo pack (`omnigate pack make --demo`),
asked for at random; nginx serves the same tiles as plain files. `omnigate-cold` is the edge without its memory for hot
objects, so that every answer is read from the disk and verified.

Needs: wrk, nginx (Debian packages), a build as it is shipped (cargo build --profile dist), and for the tiles a martin, such as
`cargo install martin --version 1.14.0 --locked --no-default-features --features mbtiles,pmtiles`; without one, its rows
are left out.
"""
import argparse, json, os, shutil, signal, sqlite3, subprocess, sys, tempfile

from proxy import NGINX, ROOT, Bench, compare, free_port, report, wait_for

BINARY = os.path.join(ROOT, "target/dist/omnigate")
FILES = """sendfile on; tcp_nopush on; open_file_cache max=10000 inactive=60s; open_file_cache_valid 60s;
  server {{ listen 127.0.0.1:{port} backlog=4096; location /edge/assets/ {{ alias {dir}/www/; }}
    location /edge/tiles/pm/ {{ alias {dir}/tiles/; default_type image/png; }}
    location /edge/tiles/mb/ {{ alias {dir}/tiles/; default_type image/png; }} }}"""
EDGE = """
[node]
data_dir = "{dir}/data-{port}"
[log]
level = "warn"
[admin]
listen = "127.0.0.1:0"
[gateway]
enabled = false
[edge]
enabled = true
listen = "127.0.0.1:{port}"
max_conns = 8192
max_conns_per_client = 8192
packs = ["{dir}/pm.pmtiles", "{dir}/mb.mbtiles"]
roots = ["{dir}/www"]
ingress = {{ rps_limit = 0, max_inflight = 512 }}
ram_bytes = "{ram}"
cas = {{ ram_bytes = "{ram}" }}
"""
MARTIN = """listen_addresses: 127.0.0.1:{port}
route_prefix: /edge/tiles
worker_processes: 2
{cache}pmtiles:
  sources:
    pm: {dir}/pm.pmtiles
mbtiles:
  sources:
    mb: {dir}/mb.mbtiles
"""
# Asks for a tile of the list at random, the same ones in every run.
TILES = """
local tiles = {{ {tiles} }}
math.randomseed(7)
request = function() return wrk.format("GET", "{prefix}" .. tiles[math.random(#tiles)]) end
"""
RANGES = """
math.randomseed(7)
request = function()
  local from = math.random(0, 255) * 4096
  return wrk.format("GET", "/edge/assets/1m.bin", {{ ["Range"] = "bytes=" .. from .. "-" .. from + 4095 }})
end
"""


def make_content(bench):
    """Files, both packs, and the tiles as files."""
    www = os.path.join(bench.dir, "www")
    os.mkdir(www)
    for name, size in [("1k.bin", 1024), ("64k.bin", 65536), ("1m.bin", 1 << 20)]:
        with open(os.path.join(www, name), "wb") as f:
            f.write(os.urandom(size))
    for pack in ["pm.pmtiles", "mb.mbtiles"]:
        subprocess.run([BINARY, "pack", "make", "--demo", os.path.join(bench.dir, pack)], check=True, capture_output=True)
    tiles = []
    for z, x, row, data in sqlite3.connect(os.path.join(bench.dir, "mb.mbtiles")).execute(
        "SELECT zoom_level, tile_column, tile_row, tile_data FROM tiles"
    ):
        tile = f"{z}/{x}/{(1 << z) - 1 - row}"
        folder = os.path.join(bench.dir, "tiles", os.path.dirname(tile))
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(bench.dir, "tiles", tile), "wb") as f:
            f.write(data)
        tiles.append(tile)
    listed = ",".join(f'"{tile}"' for tile in tiles)
    for pack in ["pm", "mb"]:
        bench.write(f"{pack}.lua", TILES.format(tiles=listed, prefix=f"/edge/tiles/{pack}/"))
    bench.write("range.lua", RANGES.replace("{{", "{").replace("}}", "}"))
    return tiles


def start(bench, name, martin):
    port = free_port()
    if name == "nginx":
        text = NGINX.format(dir=bench.dir, name="files", body=FILES.format(port=port, dir=bench.dir))
        command = ["/usr/sbin/nginx", "-c", bench.write("nginx.conf", text)]
    elif name.startswith("martin"):
        cache = "cache_size_mb: 0\n" if name.endswith("-cold") else ""
        command = [martin, "-c", bench.write(f"{name}.yaml", MARTIN.format(port=port, dir=bench.dir, cache=cache))]
    else:
        ram = "0B" if name.endswith("-cold") else "256MiB"
        conf = bench.write(f"{name}.toml", EDGE.format(port=port, dir=bench.dir, ram=ram))
        command = [BINARY, "up", "--config", conf]
    bench.spawn(name, command)
    wait_for(port)
    return port


def main():
    words = lambda text: [w for w in text.split(",") if w]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reps", type=int, default=6)
    parser.add_argument("--secs", type=int, default=3)
    parser.add_argument("--martin", default=shutil.which("martin"))
    parser.add_argument("--cases", type=words, default=["1k", "64k", "range", "tiles-pm", "tiles-mb"])
    parser.add_argument("--json", help="append every run to this file, a line each")
    args = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="omnigate-bench-")
    os.chmod(folder, 0o755)
    bench = Bench(folder)
    try:
        tiles = make_content(bench)
        print(f"{len(tiles)} tiles in each pack", file=sys.stderr)
        files = ["omnigate", "omnigate-cold", "nginx"]
        ports = {name: start(bench, name, None) for name in files}
        if args.martin:
            ports |= {name: start(bench, name, args.martin) for name in ["martin", "martin-cold"]}
        script = lambda name: ["-s", os.path.join(folder, name)]
        cases = {
            "1k": ("/edge/assets/1k.bin", []),
            "64k": ("/edge/assets/64k.bin", []),
            "range": ("/", script("range.lua")),
            "tiles-pm": ("/", script("pm.lua")),
            "tiles-mb": ("/", script("mb.lua")),
        }
        rows = []
        for case in args.cases:
            peers = {n: p for n, p in ports.items() if not n.startswith("martin") or case.startswith("tiles")}
            rows += compare(bench, peers, argparse.Namespace(cases=[cases[case]], reps=args.reps, secs=args.secs))
            for row in rows:
                row["case"] = case if row["case"] == cases[case] else row["case"]
        report(rows, "nginx")
        if args.martin:
            report([row for row in rows if row["case"].startswith("tiles")], "martin")
        if args.json:
            with open(args.json, "a") as f:
                f.writelines(json.dumps(row) + "\n" for row in rows)
    finally:
        bench.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    main()
