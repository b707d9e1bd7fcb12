"""An independent checker of epochs: its own JSON, hashes, tree, signatures and arithmetic.

    oracle.py check FOLDER...                                whether bundles are what their inputs come to
    oracle.py compare PROGRAM --epochs N [--seed S]          made-up epochs, computed by PROGRAM and by this

Prints the seed of an epoch on which they disagree. Needs Python 3.9; the `blake3` package makes it faster.
"""

import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile

import calculus
import canonical
import ed25519
import hashes

METRICS = ["served.bytes", "stored.bytes", "relayed.frames", "used.requests", "unpaid"]
NAMES = ["a", "A", "b", "other", "z\"quoted\\", "node-10", "node-9", "~", "!", "0"]


def signed(kind, document, keys):
    message = f"omnigate.rewards.{kind}.1\n".encode() + canonical.dump(document)
    signatures = [{"key": "ed25519:" + key.public.hex(), "signature": key.sign(message).hex()} for key in keys]
    signatures.sort(key=lambda signature: signature["key"])
    return canonical.dump({"format": f"omnigate-signed-{kind}/1", kind: document, "signatures": signatures})


def some_units(chance):
    return chance.choice([chance.randrange(10), chance.randrange(10**6), chance.randrange(2**60), chance.randrange(2**90)])


def some_policy(chance):
    pool = chance.choice([chance.randrange(1, 50), chance.randrange(1, 10**9), chance.randrange(1, 2**127)])
    cap_ppm = chance.choice([1_000_000, 1_000_000, chance.randrange(1, 1_000_001), chance.randrange(50_000, 400_000)])
    cap = pool * cap_ppm // 1_000_000
    paid = chance.sample(METRICS[:3], chance.randrange(1, 4))
    return {
        "cap_ppm": cap_ppm, "first_epoch": 0, "format": "omnigate-policy/1", "id": "default",
        "last_epoch": chance.choice([None, 10**6]),
        "min_payout": str(chance.choice([0, 0, 1, min(cap, chance.randrange(1, 10**6)), cap])
                          if cap else 0),
        "pool": str(pool),
        "residual": chance.choice([{"rule": "keep"}, {"rule": "pay", "to": "treasury"}]),
        "ruleset": chance.choice([1, 2, 3, 3]), "version": chance.randrange(1, 100),
        "weights_ppm": {metric: chance.choice([1, 1_000_000, chance.randrange(1, 10**9)]) for metric in paid},
    }


def some_rows(chance, actors):
    same = chance.random() < 0.3  # Equal scores, so that ties have to be broken.
    rows = {}
    for _ in range(chance.randrange(0, 3 * len(actors))):
        key = chance.choice(actors), chance.choice(METRICS)
        rows[key] = 7 if same else some_units(chance)
    return rows


def some_run(chance):
    return {"commitment": "b3k:" + chance.randbytes(32).hex(), "epoch": chance.randrange(10**6)}


def some_amounts(chance, actors, least, most):
    """Who is owed something: actor -> amount."""
    some = [actor for actor in actors if actor != "other" and chance.random() < 0.4]
    return {actor: chance.randrange(least, max(most, least + 1)) for actor in some}


def some_brought(chance, policy, actors):
    """What the epoch takes over from before it."""
    few = min(10**30, int(policy["pool"]) + 1000)
    previous = some_run(chance) if chance.random() < 0.8 else None
    actors = actors + [f"absent-{at}" for at in range(chance.choice([0, 2]))]
    corrections = []
    for at in range(chance.choice([0, 0, 1, 3])):
        credits = some_amounts(chance, actors, 1, few)
        debits = {actor: amount for actor, amount in some_amounts(chance, actors, 1, few).items() if actor not in credits}
        lines = [[{"actor": actor, "amount": str(one[actor])} for actor in sorted(one, key=str.encode)]
                 for one in (credits, debits)]
        if credits or debits:
            corrections.append({"corrects": some_run(chance), "credits": lines[0], "debits": lines[1],
                                "format": "omnigate-correction/1", "policy": policy["id"], "reason": f"no. {at}"})
    payees = None
    if chance.random() < 0.5:
        bound = sorted({actor for actor in actors if actor != "other" and chance.random() < 0.5}, key=str.encode)
        payees = {"format": "omnigate-payees/1", "policy": policy["id"], "version": chance.randrange(1, 9), "entries": [
            {"actor": actor, "consent": None, "first_epoch": 0, "last_epoch": None, "payee": "treasury"} for actor in bound]}
    carried = some_amounts(chance, actors, 1, max(min(int(policy["min_payout"]), 10**30), 2)) if previous else {}
    return {"carried": carried, "corrections": corrections, "payees": payees, "previous": previous}


def write_brought(folder, brought, key):
    (folder / "corrections").mkdir()
    (folder / "brought.json").write_bytes(canonical.dump(calculus.brought_document(brought)))
    (folder / "carried.jsonl").write_bytes(calculus.carried_lines(brought["carried"]))
    for one in brought["corrections"]:
        name = hashes.keyed("correction", canonical.dump(one)).hex() + ".json"
        (folder / "corrections" / name).write_bytes(signed("correction", one, [key]))
    if brought["payees"]:
        (folder / "payees.json").write_bytes(signed("payees", brought["payees"], [key]))


def read_brought(folder):
    """What a bundle takes over, each part compared with its hash."""
    if not (folder / "brought.json").exists():
        return calculus.NOTHING
    said = json.loads((folder / "brought.json").read_bytes())
    lines = (folder / "carried.jsonl").read_bytes() if (folder / "carried.jsonl").exists() else b""
    carried = {line["actor"]: int(line["amount"]) for line in map(json.loads, lines.splitlines())}
    files = [folder / "corrections" / (one["hash"].removeprefix("b3k:") + ".json") for one in said["corrections"]]
    corrections = [json.loads(file.read_bytes())["correction"] for file in files]
    payees = json.loads((folder / "payees.json").read_bytes())["payees"] if said["payees"] else None
    brought = {"carried": carried, "corrections": corrections, "payees": payees, "previous": said["previous"]}
    same("brought.json", canonical.dump(calculus.brought_document(brought)), (folder / "brought.json").read_bytes())
    return brought


def made_up(folder, chance, key):
    """Writes a bundle without a result; returns what it has to come to."""
    epoch, policy = chance.randrange(0, 10**6), some_policy(chance)
    policy["last_epoch"] = policy["last_epoch"] and max(policy["last_epoch"], epoch)
    actors = chance.sample(NAMES, chance.randrange(1, len(NAMES)))
    actors += [f"actor-{chance.randrange(10**6)}" for _ in range(chance.choice([0, 3, 12]))]
    (folder / "snapshots").mkdir(parents=True)
    snapshots, usage = [], {}
    for node in sorted(f"n{chance.randrange(10**4)}.{at}" for at in range(chance.randrange(1, 5))):
        rows = some_rows(chance, actors)
        snapshots.append(calculus.snapshot(node, epoch, rows))
        name = snapshots[-1]["rows_root"].removeprefix("b3k:") + ".jsonl"
        (folder / "snapshots" / name).write_bytes(calculus.row_lines(rows))
        for place, units in rows.items():
            usage[place] = usage.get(place, 0) + units
    brought = some_brought(chance, policy, actors) if policy["ruleset"] == 3 else calculus.NOTHING
    if policy["ruleset"] == 3:
        write_brought(folder, brought, key)
    (folder / "policy.json").write_bytes(signed("policy", policy, [key]))
    (folder / "inputs.json").write_bytes(canonical.dump(snapshots))
    return epoch, calculus.run(policy, epoch, snapshots, usage, brought)


def same(what, ours, theirs):
    if ours != theirs:
        raise AssertionError(f"{what} differs\n  here: {ours.decode()}\n there: {theirs.decode()}")


def compare_one(program, seed, key):
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        epoch, (document, lines, commitment, entries) = made_up(folder, chance, key)
        run = [program, "epoch", "rerun", str(folder), "--into", str(folder), "--threads", str(chance.randrange(1, 4))]
        ran = subprocess.run(run, capture_output=True)
        assert ran.returncode == 0, ran.stderr.decode()
        same("run.json", document, (folder / "run.json").read_bytes())
        same("allocations.jsonl", lines, (folder / "allocations.jsonl").read_bytes())
        same("commitment", commitment, (folder / "commitment").read_bytes())
        if entries and chance.random() < 0.2:
            index = chance.randrange(len(entries))
            actor = entries[index]["actor"]
            ran = subprocess.run([program, "epoch", "prove", str(folder), "--", actor], capture_output=True)
            same("the proof", calculus.proof(epoch, entries, index, commitment), ran.stdout)
        if chance.random() < 0.1:
            ran = subprocess.run([program, "epoch", "verify", str(folder), "--require", "rows"], capture_output=True)
            assert ran.returncode == 0, ran.stderr.decode()


def compare(arguments):
    key = ed25519.Key(bytes(32))
    for seed in range(arguments.seed, arguments.seed + arguments.epochs):
        try:
            compare_one(arguments.program, seed, key)
        except Exception as wrong:
            sys.exit(f"seed {seed}: {wrong}")
    print(f"{arguments.epochs} epochs agree")


def check(arguments):
    for folder in map(pathlib.Path, arguments.folder):
        policy = json.loads((folder / "policy.json").read_bytes())["policy"]
        snapshots = json.loads((folder / "inputs.json").read_bytes())
        usage = {}
        for snapshot in snapshots:
            data = (folder / "snapshots" / (snapshot["rows_root"].removeprefix("b3k:") + ".jsonl")).read_bytes()
            rows = [json.loads(line) for line in data.splitlines()]
            rows = {(row["actor"], row["metric"]): int(row["units"]) for row in rows}
            assert calculus.row_lines(rows) == data, f"{folder}: rows of {snapshot['node']} are not canonical"
            assert calculus.snapshot(snapshot["node"], snapshot["epoch"], rows) == snapshot
            for place, units in rows.items():
                usage[place] = usage.get(place, 0) + units
        epoch = json.loads((folder / "run.json").read_bytes())["epoch"]
        document, lines, commitment, _ = calculus.run(policy, epoch, snapshots, usage, read_brought(folder))
        same("run.json", document, (folder / "run.json").read_bytes())
        same("allocations.jsonl", lines, (folder / "allocations.jsonl").read_bytes())
        same("commitment", commitment, (folder / "commitment").read_bytes())
        print(f"{folder.name} agrees")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("check")
    one.add_argument("folder", nargs="+")
    one.set_defaults(do=check)
    many = commands.add_parser("compare")
    many.add_argument("program")
    many.add_argument("--epochs", type=int, default=100)
    many.add_argument("--seed", type=int, default=1)
    many.set_defaults(do=compare)
    hashes.check()
    arguments = parser.parse_args()
    arguments.do(arguments)


if __name__ == "__main__":
    main()
