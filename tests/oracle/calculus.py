"""What an epoch pays, written a second time from docs/rewards-format.md, with fractions instead of wide integers."""

import base64
from fractions import Fraction

import canonical
import hashes

BATCH = {1: 1000, 2: 1000, 3: 1000}
NOTHING = {"carried": {}, "corrections": [], "payees": None, "previous": None}


def digest(raw):
    return "b3k:" + raw.hex()


def row_lines(rows):
    """The rows of a snapshot: (actor, metric) -> units, in the order of bytes."""
    ordered = sorted(rows.items(), key=lambda item: (item[0][0].encode(), item[0][1].encode()))
    return b"".join(
        canonical.dump({"actor": actor, "metric": metric, "units": str(units)}) + b"\n"
        for (actor, metric), units in ordered
    )


def snapshot(node, epoch, rows):
    root = hashes.keyed("rows", row_lines(rows))
    return {"epoch": epoch, "node": node, "rows": len(rows), "rows_root": digest(root)}


def by_largest_remainder(pool, scores):
    """actor -> (share, extra). What is left of the pool goes to the largest remainders, ties to the first names."""
    total = sum(scores.values())
    exact = {actor: Fraction(pool * score, total) for actor, score in scores.items()}
    shares = {actor: share.numerator // share.denominator for actor, share in exact.items()}
    left = pool - sum(shares.values())
    by_remainder = sorted(scores, key=lambda actor: (shares[actor] - exact[actor], actor.encode()))
    lucky = set(by_remainder[:left])
    return {actor: (shares[actor] + (actor in lucky), int(actor in lucky)) for actor in scores}


def shares_of(policy, scores, cap):
    """actor -> (share, extra, capped), by the policy's rules."""
    pool = int(policy["pool"])
    if not scores:
        return {}
    if policy["ruleset"] == 1:
        shares = by_largest_remainder(pool, scores)
        return {actor: (share, extra, share > cap) for actor, (share, extra) in shares.items()}
    assert policy["ruleset"] in (2, 3)
    at_cap = set()
    while True:
        # Round by round: whoever exceeds the cap is set to it, which leaves more for the others.
        below = {actor: score for actor, score in scores.items() if actor not in at_cap}
        rest, total = pool - cap * len(at_cap), sum(below.values())
        above = {actor for actor, score in below.items() if Fraction(rest * score, total) > cap}
        if not above:
            break
        at_cap |= above
    shares = by_largest_remainder(rest, below) if below else {}
    return {actor: (cap, 0, True) if actor in at_cap else (*shares[actor], False) for actor in scores}


def carried_lines(carried):
    """The file of what is carried over: actor -> amount, in the order of bytes."""
    ordered = sorted(carried.items(), key=lambda item: item[0].encode())
    return b"".join(canonical.dump({"actor": actor, "amount": str(amount)}) + b"\n" for actor, amount in ordered)


def carried_file(carried):
    return {"amount": str(sum(carried.values())), "hash": "b3:" + hashes.plain(carried_lines(carried)).hex(),
            "lines": len(carried)}


def brought_document(brought):
    """What brought.json says: everything by its hash."""
    corrections = [{"corrects": one["corrects"], "hash": digest(hashes.keyed("correction", canonical.dump(one)))}
                   for one in brought["corrections"]]
    payees = brought["payees"]
    return {
        "carried": carried_file(brought["carried"]), "corrections": corrections,
        "payees": payees and {"hash": digest(hashes.keyed("payees", canonical.dump(payees))), "version": payees["version"]},
        "previous": brought["previous"],
    }


def taken_over(entries, brought, minimum):
    """The entries of ruleset 3: what each actor is due besides its share, paid or carried on."""
    due = {entry["actor"]: entry for entry in entries}
    credits, debits = {}, {}
    for one in brought["corrections"]:
        for sums, listed in ((credits, one["credits"]), (debits, one["debits"])):
            for line in listed:
                sums[line["actor"]] = sums.get(line["actor"], 0) + int(line["amount"])
    for actor in {*brought["carried"], *credits, *debits} - set(due):
        due[actor] = {"actor": actor, "extra": 0, "payout": "0", "rule": "full", "score": "0", "share": "0", "units": {}}
    for actor, entry in due.items():
        carried, credit = brought["carried"].get(actor, 0), credits.get(actor, 0)
        owed = int(entry["payout"]) + carried + credit
        debit = min(debits.get(actor, 0), owed)
        owed, on = owed - debit, 0
        if actor == "other":
            assert carried == credit == debit == owed == 0
        elif owed == 0 and debit > 0:
            entry["rule"] = "deducted"
        elif owed < minimum:
            entry["rule"], on, owed = "carried", owed, 0
        entry.update(carried_in=str(carried), carried_out=str(on), credit=str(credit), debit=str(debit), payout=str(owed))
    return [due[actor] for actor in sorted(due, key=str.encode)]


def allocations(policy, usage, brought=NOTHING):
    """One entry per actor with a score, in the order of bytes; by ruleset 3 also those who are owed something."""
    weights, cap = policy["weights_ppm"], int(policy["pool"]) * policy["cap_ppm"] // 1_000_000
    units, scores = {}, {}
    for (actor, metric), amount in usage.items():
        if metric in weights and amount > 0:
            units.setdefault(actor, {})[metric] = str(amount)
            scores[actor] = scores.get(actor, 0) + amount * weights[metric]
    shares = shares_of(policy, scores, cap)
    entries = []
    for actor in sorted(scores, key=str.encode):
        share, extra, capped = shares[actor]
        payout, rule = (cap, "capped") if capped else (share, "full")
        if policy["ruleset"] < 3 and not capped and share < int(policy["min_payout"]):
            payout, rule = 0, "below_minimum"
        if actor == "other":
            payout, rule = 0, "nobody"
        entries.append({"actor": actor, "extra": extra, "payout": str(payout), "rule": rule,
                        "score": str(scores[actor]), "share": str(share), "units": units[actor]})
    return taken_over(entries, brought, int(policy["min_payout"])) if policy["ruleset"] == 3 else entries


def level_above(level):
    pairs = [level[at:at + 2] for at in range(0, len(level), 2)]
    return [hashes.keyed("node", b"".join(pair)) if len(pair) == 2 else pair[0] for pair in pairs]


def root(leaves):
    while len(leaves) > 1:
        leaves = level_above(leaves)
    return leaves[0] if leaves else hashes.keyed("node", b"")


def path(leaves, index):
    hashes_on_the_way = b""
    while len(leaves) > 1:
        beside = index ^ 1
        hashes_on_the_way += leaves[beside] if beside < len(leaves) else b""
        leaves, index = level_above(leaves), index // 2
    return hashes_on_the_way


def carried_on(entries):
    """What a run carries over to the next: actor -> amount."""
    return {entry["actor"]: int(entry["carried_out"]) for entry in entries if int(entry.get("carried_out", "0"))}


def linked(entries, brought):
    """The fields that run.json has by ruleset 3 alone, and what goes in besides the pool and does not come out as payouts."""
    credited, deducted = (sum(int(entry[name]) for entry in entries) for name in ("credit", "debit"))
    on = carried_on(entries)
    fields = {"brought": brought_document(brought), "carried_out": carried_file(on), "credited": str(credited),
              "deducted": str(deducted), "format": "omnigate-run/2"}
    return fields, sum(brought["carried"].values()) + credited - sum(on.values())


def run(policy, epoch, snapshots, usage, brought=NOTHING):
    """(run.json, allocations.jsonl, commitment) as bytes, and the entries."""
    entries = allocations(policy, usage, brought)
    more, besides = linked(entries, brought) if policy["ruleset"] == 3 else ({"format": "omnigate-run/1"}, 0)
    lines = [canonical.dump(entry) for entry in entries]
    file = b"".join(line + b"\n" for line in lines)
    leaves = [hashes.keyed("leaf", line) for line in lines]
    paid, pool = sum(int(entry["payout"]) for entry in entries), int(policy["pool"])
    residual = pool + besides - paid
    assert 0 <= residual < 2**127 and 0 <= paid < 2**127
    transfers = sum(entry["payout"] != "0" for entry in entries)
    transfers += policy["residual"]["rule"] == "pay" and residual > 0
    policy_hash = digest(hashes.keyed("policy", canonical.dump(policy)))
    inputs_root = digest(hashes.keyed("inputs", canonical.dump(snapshots)))
    made_of = {"epoch": epoch, "inputs_root": inputs_root, "policy_hash": policy_hash, "ruleset": policy["ruleset"]}
    if policy["ruleset"] == 3:
        made_of["brought_root"] = digest(hashes.keyed("brought", canonical.dump(more["brought"])))
    document = canonical.dump({
        "allocations": {"file": "allocations.jsonl", "hash": "b3:" + hashes.plain(file).hex(), "lines": len(lines),
                        "root": digest(root(leaves))},
        "batches": -(-transfers // BATCH[policy["ruleset"]]),
        "epoch": epoch,
        **more,
        "inputs": {"root": inputs_root, "snapshots": len(snapshots)},
        "paid": str(paid),
        "policy": {"hash": policy_hash, "id": policy["id"], "version": policy["version"]},
        "pool": policy["pool"],
        "residual": str(residual),
        "ruleset": policy["ruleset"],
        "run_key": digest(hashes.keyed("run-key", canonical.dump(made_of))),
        "score_total": str(sum(int(entry["score"]) for entry in entries)),
    })
    commitment = digest(hashes.keyed("commitment", document))
    return document, file, commitment.encode() + b"\n", entries


def proof(epoch, entries, index, commitment):
    leaves = [hashes.keyed("leaf", canonical.dump(entry)) for entry in entries]
    encoded = base64.urlsafe_b64encode(path(leaves, index)).rstrip(b"=").decode()
    return canonical.dump({
        "allocation": entries[index], "commitment": commitment.strip().decode(), "epoch": epoch,
        "format": "omnigate-proof/1", "index": index, "lines": len(entries), "path": encoded,
        "root": digest(root(leaves)),
    })
