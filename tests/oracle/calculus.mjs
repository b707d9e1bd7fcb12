// What an epoch pays, written a third time, from docs/rewards-format.md alone, with BigInt.

import { hash, keyedHash } from "./blake3.mjs";

const BATCH = { 1: 1000, 2: 1000, 3: 1000 };
export const NOTHING = { carried: new Map(), corrections: [], payees: null, previous: null };
const text = (bytes) => Buffer.from(bytes, "utf8");

// Canonical JSON (RFC 8785). What this page writes is ASCII, so that JSON.stringify escapes as it has to.
export function canonical(value) {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  const names = Object.keys(value).sort();
  return `{${names.map((name) => `${JSON.stringify(name)}:${canonical(value[name])}`).join(",")}}`;
}

export const plain = (bytes) => `b3:${hash(bytes).toString("hex")}`;
export const raw = (kind, bytes) => keyedHash(text(`omnigate.rewards.${kind}.1`.padEnd(32, ".")), bytes);
export const keyed = (kind, bytes) => `b3k:${raw(kind, bytes).toString("hex")}`;
export const byBytes = (a, b) => Buffer.compare(text(a), text(b));

// Rows are [actor, metric, units], in any order and none twice.
export function rowLines(rows) {
  const ordered = [...rows].sort((a, b) => byBytes(a[0], b[0]) || byBytes(a[1], b[1]));
  return ordered.map(([actor, metric, units]) => `${canonical({ actor, metric, units: String(units) })}\n`).join("");
}

export const snapshot = (node, epoch, rows) =>
  ({ epoch, node, rows: rows.length, rows_root: keyed("rows", text(rowLines(rows))) });

// Divides an amount between [actor, score], which are in order: actor -> { share, extra }.
function largestRemainder(amount, scored) {
  const total = scored.reduce((sum, [, score]) => sum + score, 0n);
  const parts = scored.map(([actor, score]) =>
    ({ actor, share: amount * score / total, remainder: amount * score % total, extra: 0 }));
  let left = amount - parts.reduce((sum, part) => sum + part.share, 0n);
  const byRemainder = [...parts].sort((a, b) =>
    a.remainder === b.remainder ? byBytes(a.actor, b.actor) : a.remainder > b.remainder ? -1 : 1);
  for (const part of byRemainder) {
    if (left === 0n) break;
    part.share += 1n; part.extra = 1; left -= 1n;
  }
  return new Map(parts.map((part) => [part.actor, part]));
}

// Who is capped by ruleset 2, and what is left for the others.
function capped(pool, cap, scored) {
  const actors = new Set();
  let [amount, sum] = [pool, scored.reduce((sum, [, score]) => sum + score, 0n)];
  for (const [actor, score] of [...scored].sort((a, b) => (a[1] > b[1] ? -1 : a[1] < b[1] ? 1 : 0))) {
    if (amount * score <= cap * sum) break;
    actors.add(actor); amount -= cap; sum -= score;
  }
  return { actors, amount };
}

function entry(actor, policy, cap, { share, extra }, isCapped) {
  let [payout, rule] = isCapped ? [cap, "capped"] : [share, "full"];
  if (policy.ruleset < 3 && !isCapped && share < BigInt(policy.min_payout)) [payout, rule] = [0n, "below_minimum"];
  if (actor === "other") [payout, rule] = [0n, "nobody"];
  return { actor, extra, payout: String(payout), rule, share: String(share) };
}

// The file of what is carried over: a map of actors to amounts.
export function carriedLines(carried) {
  const ordered = [...carried].sort((a, b) => byBytes(a[0], b[0]));
  return ordered.map(([actor, amount]) => `${canonical({ actor, amount: String(amount) })}\n`).join("");
}

const carriedFile = (carried) => ({
  amount: String([...carried.values()].reduce((sum, amount) => sum + amount, 0n)),
  hash: plain(text(carriedLines(carried))), lines: carried.size,
});

export const correctionHash = (correction) => keyed("correction", text(canonical(correction)));

// What brought.json says: everything by its hash.
export const broughtDocument = ({ carried, corrections, payees, previous }) => ({
  carried: carriedFile(carried),
  corrections: corrections.map((one) => ({ corrects: one.corrects, hash: correctionHash(one) })),
  payees: payees && { hash: keyed("payees", text(canonical(payees))), version: payees.version },
  previous,
});

// What corrections say of each actor: actor -> [credit, debit].
function corrected(corrections) {
  const sums = new Map();
  for (const one of corrections) {
    [one.credits, one.debits].forEach((list, side) => list.forEach(({ actor, amount }) => {
      const both = sums.get(actor) ?? [0n, 0n];
      both[side] += BigInt(amount);
      sums.set(actor, both);
    }));
  }
  return sums;
}

// The lines of ruleset 3: everything that an actor is due, paid or carried on.
function takenOver(entries, brought, minimum) {
  const lines = new Map(entries.map((line) => [line.actor, line]));
  const sums = corrected(brought.corrections);
  for (const actor of [...brought.carried.keys(), ...sums.keys()]) {
    if (lines.has(actor)) continue;
    lines.set(actor, { actor, extra: 0, payout: "0", rule: "full", score: "0", share: "0", units: {} });
  }
  const all = [...lines.values()].sort((a, b) => byBytes(a.actor, b.actor));
  return all.map((line) => {
    const carriedIn = brought.carried.get(line.actor) ?? 0n, [credit, asked] = sums.get(line.actor) ?? [0n, 0n];
    const before = BigInt(line.payout) + carriedIn + credit;
    const debit = asked < before ? asked : before, due = before - debit;
    let [payout, carriedOut, rule] = [due, 0n, line.rule];
    if (rule !== "nobody" && due === 0n && debit > 0n) rule = "deducted";
    else if (rule !== "nobody" && due < minimum) [payout, carriedOut, rule] = [0n, due, "carried"];
    return { ...line, carried_in: String(carriedIn), carried_out: String(carriedOut), credit: String(credit),
      debit: String(debit), payout: String(payout), rule };
  });
}

// One entry per actor with a score, in the order of actors; by ruleset 3 also those who are owed something.
export function allocations(policy, snapshots, brought = NOTHING) {
  const units = new Map();
  for (const [actor, metric, more] of snapshots.flat()) {
    if (!(metric in policy.weights_ppm)) continue;
    if (!units.has(actor)) units.set(actor, {});
    units.get(actor)[metric] = (units.get(actor)[metric] ?? 0n) + more;
  }
  const score = (of) => Object.entries(of).reduce((sum, [metric, many]) => sum + many * BigInt(policy.weights_ppm[metric]), 0n);
  const scored = [...units].map(([actor, of]) => [actor, score(of)]).filter(([, points]) => points > 0n);
  scored.sort((a, b) => byBytes(a[0], b[0]));
  const pool = BigInt(policy.pool), cap = pool * BigInt(policy.cap_ppm) / 1000000n;
  const top = policy.ruleset >= 2 ? capped(pool, cap, scored) : { actors: new Set(), amount: pool };
  const others = scored.filter(([actor]) => !top.actors.has(actor));
  const shares = others.length > 0 ? largestRemainder(top.amount, others) : new Map();
  const entries = scored.map(([actor, points]) => {
    const part = shares.get(actor) ?? { share: cap, extra: 0 };
    const isCapped = top.actors.has(actor) || (policy.ruleset === 1 && part.share > cap);
    const some = Object.entries(units.get(actor)).filter(([, many]) => many > 0n);
    const shown = Object.fromEntries(some.map(([metric, many]) => [metric, String(many)]));
    return { ...entry(actor, policy, cap, part, isCapped), score: String(points), units: shown };
  });
  return policy.ruleset === 3 ? takenOver(entries, brought, BigInt(policy.min_payout)) : entries;
}

function above(level) {
  const next = [];
  for (let at = 0; at < level.length; at += 2) {
    const pair = level.slice(at, at + 2);
    next.push(pair.length === 2 ? raw("node", Buffer.concat(pair)) : pair[0]);
  }
  return next;
}

// The root over leaves, and the hashes beside the way of one of them.
function climb(leaves, index) {
  if (leaves.length === 0) return { root: keyed("node", Buffer.alloc(0)), path: [] };
  const path = [];
  let level = leaves;
  for (; level.length > 1; level = above(level), index >>= 1) {
    if ((index ^ 1) < level.length) path.push(level[index ^ 1]);
  }
  return { root: `b3k:${level[0].toString("hex")}`, path };
}

// run.json, allocations.jsonl and commitment, and a way to make proofs.
export function run(policy, epoch, list, snapshots, brought = NOTHING) {
  const entries = allocations(policy, snapshots, brought);
  const lines = entries.map(canonical);
  const file = lines.map((line) => `${line}\n`).join("");
  const leaves = lines.map((line) => raw("leaf", text(line)));
  const { root } = climb(leaves, 0);
  const paid = entries.reduce((sum, line) => sum + BigInt(line.payout), 0n);
  const sum = (name) => entries.reduce((all, line) => all + BigInt(line[name]), 0n);
  const more = { format: "omnigate-run/1" };
  let residual = BigInt(policy.pool) - paid;
  if (policy.ruleset === 3) {
    const on = entries.filter((line) => line.carried_out !== "0").map((line) => [line.actor, BigInt(line.carried_out)]);
    Object.assign(more, { brought: broughtDocument(brought), carried_out: carriedFile(new Map(on)),
      credited: String(sum("credit")), deducted: String(sum("debit")), format: "omnigate-run/2" });
    residual += sum("carried_in") + sum("credit") - sum("carried_out");
  }
  const transfers = entries.filter((line) => line.payout !== "0").length
    + (policy.residual.rule === "pay" && residual > 0n ? 1 : 0);
  const policyHash = keyed("policy", text(canonical(policy)));
  const inputsRoot = keyed("inputs", text(canonical(list)));
  const madeOf = { epoch, inputs_root: inputsRoot, policy_hash: policyHash, ruleset: policy.ruleset };
  if (policy.ruleset === 3) madeOf.brought_root = keyed("brought", text(canonical(more.brought)));
  const document = canonical({
    allocations: { file: "allocations.jsonl", hash: plain(text(file)), lines: lines.length, root },
    batches: Math.ceil(transfers / BATCH[policy.ruleset]),
    epoch, ...more,
    inputs: { root: inputsRoot, snapshots: list.length },
    paid: String(paid),
    policy: { hash: policyHash, id: policy.id, version: policy.version },
    pool: policy.pool, residual: String(residual), ruleset: policy.ruleset,
    run_key: keyed("run-key", text(canonical(madeOf))),
    score_total: String(entries.reduce((sum, line) => sum + BigInt(line.score), 0n)),
  });
  const commitment = keyed("commitment", text(document));
  const proof = (index) => canonical({
    allocation: entries[index], commitment, epoch, format: "omnigate-proof/1", index, lines: lines.length,
    path: Buffer.concat(climb(leaves, index).path).toString("base64url"), root,
  });
  return { document, file, commitment, entries, proof };
}
