#!/usr/bin/env python3
"""Measures an epoch, usage rows to allocations, beside DuckDB and Polars; and a million actors, computed and verified.

    bench/epoch.py [--rows 10000000] [--actors 100000] [--nodes 20] [--reps 5] [--threads 2] [--million] [--dir FOLDER]

All read the same files, twice: the Parquet files that nodes seal, one per node, and the lines of JSON that bundles carry.
`omnigate epoch rerun` does more than its peers: it compares the rows with the hashes that they are named by, checks their
order and names, and writes canonical lines, a Merkle tree and a commitment. The peers add up, divide by largest remainder
and keep the result in memory. Every result is compared: the payouts have to be the same.

Peers are timed without their start and imports; omnigate from its start to its end. Columns: seconds by the clock, seconds
of CPU (what counts on a machine with other work), peak memory of the process.
Needs: a build as it is shipped (cargo build --profile dist) or OMNIGATE, and from Python's index blake3, duckdb, polars, pyarrow, numpy.
"""
import argparse, hashlib, json, os, pathlib, shutil, statistics, subprocess, sys, tempfile, time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = os.environ.get("OMNIGATE", str(ROOT / "target/dist/omnigate"))
sys.path.insert(0, str(ROOT / "tests/oracle"))
WEIGHTS = [1_000_000, 1_200_000, 1_500_000, 2_000_000, 2_500_000, 3_000_000, 4_000_000, 5_000_000]
POOL = 10_000_000_000_000
FORMS = ["parquet", "lines"]


def metric(number):
    return f"served.class{number}"


def policy_terms():
    return {
        "cap_ppm": 1_000_000, "first_epoch": 0, "format": "omnigate-policy/1", "id": "bench", "last_epoch": None,
        "min_payout": "0", "pool": str(POOL), "residual": {"rule": "keep"}, "ruleset": 1, "version": 1,
        "weights_ppm": {metric(at): weight for at, weight in enumerate(WEIGHTS)},
    }


def make(folder, rows, actors, nodes):
    """Two bundles without a result: `parquet` with the rows as nodes seal them, `lines` with the same rows as lines."""
    import blake3, numpy, pyarrow, pyarrow.parquet
    import canonical, ed25519, oracle

    for form in FORMS:
        (folder / form / "snapshots").mkdir(parents=True)
    chance = numpy.random.default_rng(7)
    names = [f"actor-{at:07d}" for at in range(actors)]
    heads = [f'{{"actor":"{name}","metric":"served.class' for name in names]
    field = lambda name, kind: pyarrow.field(name, kind, nullable=False)
    schema = pyarrow.schema([field("actor", pyarrow.string()), field("metric", pyarrow.string()),
                             field("units", pyarrow.uint64()), field("units_high", pyarrow.uint64())])
    snapshots = []
    for node in range(nodes):
        places = numpy.sort(chance.choice(actors * len(WEIGHTS), rows // nodes, replace=False))
        units = chance.integers(1, 1_000_000, len(places), dtype=numpy.uint64)
        who, what = places // len(WEIGHTS), places % len(WEIGHTS)
        lines = "".join(
            f'{heads[a]}{m}","units":"{u}"}}\n' for a, m, u in zip(who.tolist(), what.tolist(), units.tolist())
        ).encode()
        key = b"omnigate.rewards.rows.1".ljust(32, b".")
        root = blake3.blake3(lines, key=key).hexdigest()
        (folder / "lines/snapshots" / f"{root}.jsonl").write_bytes(lines)
        snapshots.append({"epoch": 1, "node": f"node-{node:04d}", "rows": len(places), "rows_root": f"b3k:{root}"})
        actor_column = pyarrow.array(numpy.array(names, dtype=object)[who])
        metric_column = pyarrow.array(numpy.array([metric(at) for at in range(len(WEIGHTS))], dtype=object)[what])
        high = numpy.zeros(len(places), dtype=numpy.uint64)
        columns = {"actor": actor_column, "metric": metric_column, "units": units, "units_high": high}
        # As store/ron-accounting writes: nothing compressed, no statistics, dictionaries for what repeats.
        pyarrow.parquet.write_table(
            pyarrow.table(columns, schema=schema), folder / "parquet/snapshots" / f"{root}.parquet", compression="none",
            use_dictionary=["actor", "metric", "units_high"], write_statistics=False, store_schema=False,
            row_group_size=1 << 20, dictionary_pagesize_limit=1 << 20, data_page_version="1.0")
    policy = oracle.signed(policy_terms(), [ed25519.Key(bytes(32))])
    for form in FORMS:
        (folder / form / "inputs.json").write_bytes(canonical.dump(snapshots))
        (folder / form / "policy.json").write_bytes(policy)


def digest(pairs):
    """One text for all payouts, so that engines can be compared."""
    hashed = hashlib.sha256()
    for actor, payout in sorted(pairs):
        hashed.update(f"{actor} {payout}\n".encode())
    return hashed.hexdigest()[:16]


def largest_remainder(scores):
    total, out, left = sum(scores.values()), {}, POOL
    remainders = []
    for actor, score in scores.items():
        out[actor], remainder = divmod(POOL * score, total)
        left -= out[actor]
        remainders.append((-remainder, actor))
    for _, actor in sorted(remainders)[:left]:
        out[actor] += 1
    return out.items()


def now():
    return time.perf_counter(), time.process_time()


def since(start):
    return [end - begin for begin, end in zip(start, now())]


def by_duckdb(folder, form, threads):
    import duckdb

    connection = duckdb.connect(config={"threads": threads})
    start = now()
    rows = (f"read_json('{folder}/snapshots/*.jsonl', format='newline_delimited', "
            "columns={actor: 'VARCHAR', metric: 'VARCHAR', units: 'UBIGINT'})"
            if form == "lines" else f"'{folder}/snapshots/*.parquet'")
    weight = "case metric " + " ".join(f"when '{metric(at)}' then {w}" for at, w in enumerate(WEIGHTS)) + " end"
    result = connection.execute(f"""
        with scores as (select actor, sum(units * {weight})::hugeint s from {rows} group by actor),
        total as (select sum(s)::hugeint t from scores),
        shares as (select actor, ({POOL}::hugeint * s) // t q, ({POOL}::hugeint * s) % t r from scores, total),
        rest as (select {POOL}::hugeint - sum(q)::hugeint n from shares),
        ranked as (select actor, q, row_number() over (order by r desc, actor) place from shares)
        select actor, q + case when place <= n then 1 else 0 end from ranked, rest""").fetchall()
    return since(start), digest(result)


def by_polars(folder, form, threads):
    os.environ["POLARS_MAX_THREADS"] = str(threads)
    import polars

    start = now()
    if form == "lines":
        schema = {"actor": polars.String, "metric": polars.String, "units": polars.String}
        rows = polars.scan_ndjson(f"{folder}/snapshots/*.jsonl", schema=schema)
        rows = rows.with_columns(units=polars.col("units").cast(polars.UInt64))
    else:
        rows = polars.scan_parquet(f"{folder}/snapshots/*.parquet")
    weights = {metric(at): weight for at, weight in enumerate(WEIGHTS)}
    weight = polars.col("metric").replace_strict(weights, return_dtype=polars.UInt64)
    sums = rows.group_by("actor").agg(s=(polars.col("units") * weight).sum())
    scores = dict(sums.collect(engine="streaming").iter_rows())
    result = list(largest_remainder(scores))
    return since(start), digest(result)


def peer(arguments):
    engine = {"duckdb": by_duckdb, "polars": by_polars}[arguments.engine]
    (seconds, cpu), result = engine(arguments.dir, arguments.form, arguments.threads)
    print(json.dumps({"seconds": seconds, "cpu": cpu, "digest": result}))


# A process begins with the peak of the one it was forked from: here a small one, whatever this one has grown to.
SMALL = """
import os, sys, time
start = time.perf_counter()
child = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)
_, status, usage = os.wait4(child, 0)
print(f"\\n{time.perf_counter() - start} {usage.ru_utime + usage.ru_stime} {usage.ru_maxrss * 1024} {status}")
"""


def timed(command):
    """Seconds by the clock and of CPU, the peak memory of that one process, and what it printed."""
    ran = subprocess.run([sys.executable, "-S", "-c", SMALL, *command], stdout=subprocess.PIPE)
    out, last = ran.stdout.decode().rstrip("\n").rsplit("\n", 1)
    seconds, cpu, peak, status = last.split()
    assert status == "0", f"{command} failed"
    return float(seconds), float(cpu), int(peak), out


def by_omnigate(folder, threads):
    out = folder / "out"
    command = [PROGRAM, "epoch", "rerun", str(folder), "--into", str(out), "--threads", str(threads)]
    seconds, cpu, peak, _ = timed(command)
    return {"seconds": seconds, "cpu": cpu, "peak": peak, "digest": result_of(out)}


def result_of(out):
    entries = map(json.loads, open(out / "allocations.jsonl"))
    return digest((entry["actor"], int(entry["payout"])) for entry in entries)


def by_peer(engine, form, folder, threads):
    command = [sys.executable, "-B", __file__, "--peer", engine, "--form", form, "--dir", str(folder),
               "--threads", str(threads)]
    _, _, peak, said = timed(command)
    return {**json.loads(said), "peak": peak}


def compare(arguments, folder):
    make(folder, arguments.rows, arguments.actors, arguments.nodes)
    sizes = {}
    for form in FORMS:  # Into the page cache, for everybody.
        sizes[form] = sum(len(path.read_bytes()) for path in folder.glob(f"{form}/snapshots/*"))
    engines = {}
    for form in FORMS:
        def run(engine, form=form):
            return lambda: engine(form, folder / form, arguments.threads)

        engines[f"omnigate, {form}"] = run(lambda _, *of: by_omnigate(*of))
        for name in ("duckdb", "polars"):
            engines[f"{name}, {form}"] = run(lambda *of, name=name: by_peer(name, *of))
    runs = {name: [] for name in engines}
    for _ in range(arguments.reps):
        for name, engine in engines.items():
            runs[name].append(engine())
    results = {run["digest"] for list_ in runs.values() for run in list_}
    assert len(results) == 1, f"the payouts differ: {results}"
    print(f"{arguments.rows} rows, {arguments.nodes} nodes, {sizes['parquet'] >> 20} MiB as Parquet, "
          f"{sizes['lines'] >> 20} MiB as lines, {arguments.threads} threads; median of {arguments.reps}; "
          "all payouts agree")
    for name, list_ in runs.items():
        seconds, cpu, peak = (statistics.median(run[key] for run in list_) for key in ("seconds", "cpu", "peak"))
        print(f"| {name} | {seconds:.2f} s | {cpu:.2f} s | {peak / 1e6:.0f} MB |")


def million(arguments, folder):
    """Computed, verified and proven: a million actors with one metric each in four snapshots."""
    make(folder, 4_000_000, 1_000_000, 4)
    folder /= "parquet"
    key = "ed25519:" + __import__("ed25519").Key(bytes(32)).public.hex()
    def row(name, command):
        seconds, cpu, peak, said = timed([PROGRAM, "epoch", *command])
        print(f"| {name} | {seconds:.2f} s | {cpu:.2f} s | {peak / 1e6:.0f} MB |")
        return said

    verify = ["verify", str(folder), "--policy-key", key, "--actor", "actor-0777777"]
    for threads in ("1", str(arguments.threads)):
        row(f"compute and write, {threads} threads",
            ["rerun", str(folder), "--into", str(folder), "--threads", threads])
        said = row(f"verify, {threads} threads", [*verify, "--require", "policy,rows", "--threads", threads])
    proof = row("prove", ["prove", str(folder), "actor-0777777"])
    assert len(proof) <= 2048, f"a proof of {len(proof)} bytes"
    print(f"a proof has {len(proof)} bytes")
    shutil.rmtree(folder / "snapshots")
    row("verify without rows", [*verify, "--require", "policy"])
    print(said)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--actors", type=int, default=100_000)
    parser.add_argument("--nodes", type=int, default=20)
    parser.add_argument("--reps", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--million", action="store_true")
    parser.add_argument("--dir")
    parser.add_argument("--peer", dest="engine")
    parser.add_argument("--form")
    arguments = parser.parse_args()
    if arguments.engine:
        return peer(arguments)
    with tempfile.TemporaryDirectory(dir=arguments.dir) as temporary:
        (million if arguments.million else compare)(arguments, pathlib.Path(temporary) / "bundle")


if __name__ == "__main__":
    main()
