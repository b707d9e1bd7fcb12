#!/usr/bin/env python3
"""Measures the ledger beside the same double entry in hand-written SQL: transfers a second, on SQLite and PostgreSQL.

    bench/ledger.py [--reps 3] [--transfers 100000] [--single 2000] [--stores sqlite,postgres] [--profile release] [--json FILE]

Both keep what they are told before they answer: SQLite with WAL and synchronous=FULL, PostgreSQL with fsync on. `batched`
is 1,000 transfers per batch over 10,000 accounts; `single` is one per commit, by one client and by 16. By hand there is
an entry and two updates per transfer, and neither keys, holds, floors nor a chain. `chain, at most` is the time that hashing
every leaf, node and link takes, and a little more, as a share of the time that posting took.

Everything is in a temporary folder that is removed at the end; PostgreSQL (the Debian package postgresql-15) is started
there, on a Unix socket, as the user postgres when run as root.
"""
import argparse, json, os, shutil, statistics, subprocess, tempfile, time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PROGRAMS = "/usr/lib/postgresql/15/bin"


def build(profile):
    command = ["cargo", "build", "--profile", profile, "--locked", "-p", "ron-ledger", "--features", "postgres",
               "--bench", "ledger", "--message-format", "json"]
    lines = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    found = [m["executable"] for m in map(json.loads, lines)
             if m.get("executable") and m.get("target", {}).get("name") == "ledger"]
    return found[-1]


def unprivileged(program):
    command = [os.path.join(PROGRAMS, program)]
    if os.geteuid() != 0:
        return command
    return ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", *command]


class Postgres:
    """A server in a folder of its own."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="omnigate-bench-pg-")
        if os.geteuid() == 0:
            shutil.chown(self.folder, "postgres")
        data = os.path.join(self.folder, "data")
        quiet = {"stdout": subprocess.DEVNULL, "cwd": "/"}
        subprocess.run([*unprivileged("initdb"), "--auth=trust", "--username=omnigate", "--encoding=UTF8", "--locale=C",
                        "-D", data], check=True, **quiet)
        self.server = subprocess.Popen([*unprivileged("postgres"), "-D", data, "-k", self.folder, "-c",
                                        "listen_addresses="], stderr=subprocess.DEVNULL, **quiet)
        ready = [os.path.join(PROGRAMS, "pg_isready"), "-q", "-h", self.folder]
        deadline = time.monotonic() + 60
        while subprocess.run(ready).returncode != 0:
            if self.server.poll() is not None or time.monotonic() > deadline:
                self.close()
                raise SystemExit(f"PostgreSQL does not start: is {PROGRAMS} there?")
            time.sleep(0.1)

    def database(self, name):
        create = [os.path.join(PROGRAMS, "createdb"), "-h", self.folder, "-U", "omnigate", name]
        subprocess.run(create, check=True)
        return f"postgres://omnigate@{self.folder.replace('/', '%2F')}/{name}"

    def close(self):
        self.server.terminate()
        self.server.wait()
        shutil.rmtree(self.folder)


def run(program, url, args):
    command = [program, url, str(args.transfers), str(args.single)]
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    cases = {case["case"]: case for case in map(json.loads, out.splitlines())}
    rates = {name: case["transfers"] / case["seconds"] for name, case in cases.items()}
    rates["chain share"] = cases["chain of the batched, at most"]["seconds"] / cases["batched"]["seconds"]
    return rates


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reps", type=int, default=3)
    parser.add_argument("--transfers", type=int, default=100_000)
    parser.add_argument("--single", type=int, default=2_000)
    parser.add_argument("--stores", default="sqlite,postgres")
    parser.add_argument("--profile", default="release", help="of cargo; `dev` only to see whether it works")
    parser.add_argument("--json")
    args = parser.parse_args()
    program = build(args.profile)
    server = Postgres() if "postgres" in args.stores else None
    results = {}
    try:
        for rep in range(args.reps):
            for store in args.stores.split(","):
                with tempfile.TemporaryDirectory(prefix="omnigate-bench-", dir=ROOT + "/target") as folder:
                    url = server.database(f"rep{rep}") if store == "postgres" else f"sqlite:{folder}/ledger.db"
                    results.setdefault(store, []).append(run(program, url, args))
    finally:
        if server:
            server.close()
    print("| store | case | transfers/s | by hand | ours : by hand |\n|---|---|---|---|---|")
    for store, reps in results.items():
        for case in ("batched", "single", "single, 16 at once"):
            ours = statistics.median(rep[case] for rep in reps)
            hand = case.split(",")[0] + ", by hand"
            ratio = statistics.median(rep[case] / rep[hand] for rep in reps)
            by_hand = statistics.median(rep[hand] for rep in reps)
            print(f"| {store} | {case} | {ours:,.0f} | {by_hand:,.0f} | {ratio:.2f} |")
        share = statistics.median(rep["chain share"] for rep in reps)
        print(f"| {store} | chain, at most | {share:.1%} of the time of the batched | | |")
    if args.json:
        with open(args.json, "w") as out:
            json.dump(results, out, indent=2)


if __name__ == "__main__":
    main()
