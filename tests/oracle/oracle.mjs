// A third implementation of docs/rewards-format.md, in JavaScript (Node 20, no packages): it makes epochs up, computes them,
// seals and attests to them, and has a program compute, prove and verify the same.
//
//   node oracle.mjs compare PROGRAM [EPOCHS] [FIRST SEED]
//
// Prints the seed of an epoch on which they disagree.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { createPrivateKey, createPublicKey, sign } from "node:crypto";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { hash, keyedHash } from "./blake3.mjs";
import {
  NOTHING, broughtDocument, byBytes, canonical, carriedLines, correctionHash, plain, rowLines, run, snapshot,
} from "./calculus.mjs";

const METRICS = ["served.bytes", "stored.bytes", "relayed.frames", "used.requests", "unpaid"];
const NAMES = ["a", "A", "b", "other", 'z"quoted\\', "node-10", "node-9", "~", "!", "0"];

// Random numbers that are the same for the same seed, by hashing a counter.
function chance(seed) {
  let count = 0;
  const big = (below) => BigInt(`0x${hash(Buffer.from(`${seed}/${count++}`)).toString("hex")}`) % BigInt(below);
  const below = (end) => Number(big(end));
  const choice = (list) => list[below(list.length)];
  return { big, below, choice };
}

// An Ed25519 key from a number, by way of the 32 bytes of its secret (RFC 8410).
function keyOf(number) {
  const der = Buffer.concat([Buffer.from("302e020100300506032b657004220420", "hex"), Buffer.alloc(32, number)]);
  const secret = createPrivateKey({ key: der, format: "der", type: "pkcs8" });
  const open = createPublicKey(secret).export({ format: "der", type: "spki" }).subarray(-32);
  const signed = (kind, body) => sign(null, Buffer.from(`omnigate.rewards.${kind}.1\n${body}`), secret).toString("hex");
  return { digits: open.toString("hex"), name: `ed25519:${open.toString("hex")}`, id: plain(open), signed };
}

function somePolicy(random) {
  const { big, below, choice } = random;
  const pool = choice([1n + big(50), 1n + big(10 ** 9), 1n + big(2n ** 127n - 1n)]);
  const capPpm = choice([1000000, 1000000, 1 + below(1000000), 50000 + below(350000)]);
  const cap = pool * BigInt(capPpm) / 1000000n;
  const least = (amount) => (amount < cap ? amount : cap);
  const paid = METRICS.slice(0, 3).filter(() => below(3) > 0);
  const weights = (paid.length > 0 ? paid : [METRICS[0]]).map((metric) => [metric, choice([1, 1000000, 1 + below(10 ** 9)])]);
  return {
    cap_ppm: capPpm, first_epoch: 0, format: "omnigate-policy/1", id: "default", last_epoch: choice([null, 10 ** 6]),
    min_payout: String(choice([0n, 0n, least(1n), least(1n + big(10 ** 6)), cap])), pool: String(pool),
    residual: choice([{ rule: "keep" }, { rule: "pay", to: "treasury" }]), ruleset: choice([1, 2, 3, 3]),
    version: 1 + below(100), weights_ppm: Object.fromEntries(weights),
  };
}

function someRows({ big, below, choice }, actors) {
  const rows = new Map();
  const same = below(10) < 3; // Equal scores, so that ties have to be broken.
  for (let more = below(3 * actors.length); more > 0; more--) {
    const units = same ? 7n : choice([big(10), big(10 ** 6), big(2n ** 60n), big(2n ** 84n)]);
    const [actor, metric] = [choice(actors), choice(METRICS)];
    rows.set(`${actor} ${metric}`, [actor, metric, units]);
  }
  return [...rows.values()];
}

const byActor = (a, b) => byBytes(a.actor, b.actor);

// What the epoch takes over from before it.
function someBrought(random, policy, actors, keys) {
  const { big, below, choice } = random;
  const aRun = () => ({ commitment: plain(Buffer.from(String(below(10 ** 9)))).replace("b3:", "b3k:"), epoch: below(10 ** 6) });
  const few = 1n + (BigInt(policy.pool) < 10n ** 30n ? BigInt(policy.pool) : 10n ** 30n);
  const some = (most) => actors.filter((actor) => actor !== "other" && below(5) < 2)
    .map((actor) => ({ actor, amount: String(1n + big(most)) })).sort(byActor);
  const corrections = [0, 1, 2].slice(0, choice([0, 0, 1, 3])).map((at) => {
    const credits = some(few), credited = new Set(credits.map((line) => line.actor));
    const debits = some(few).filter((line) => !credited.has(line.actor));
    return { corrects: aRun(), credits, debits, format: "omnigate-correction/1", policy: policy.id, reason: `no. ${at}` };
  }).filter((one) => one.credits.length + one.debits.length > 0);
  const previous = below(5) > 0 ? aRun() : null;
  const least = BigInt(policy.min_payout) < few ? BigInt(policy.min_payout) : few;
  const carried = new Map(previous ? some(least > 1n ? least - 1n : 1n).map(({ actor, amount }) => [actor, BigInt(amount)]) : []);
  return { carried, corrections, payees: below(2) > 0 ? somePayees(random, policy, actors, keys) : null, previous };
}

// A registry in which keys consent to where their payouts go, one by itself and one by way of a delegate.
function somePayees({ below }, policy, actors, [own, giver, delegate]) {
  const named = actors.filter((actor) => actor !== "other" && below(2) > 0);
  const bound = (actor, lastEpoch, consent) => {
    const entry = { actor, first_epoch: 0, last_epoch: lastEpoch, payee: "treasury" };
    const said = canonical({ ...entry, policy: policy.id });
    return { ...entry, consent: consent && { delegation: null, ...consent(said) } };
  };
  const entries = named.filter((actor) => actor !== own.id && actor !== giver.id).map((actor) => bound(actor, null, null));
  entries.push(bound(own.id, null, (said) => ({ key: own.name, signature: own.signed("payee", said) })));
  const word = canonical({ actor: giver.id, delegate: delegate.name, last_epoch: 10 ** 6 });
  const delegation = { key: giver.name, last_epoch: 10 ** 6, signature: giver.signed("delegation", word) };
  entries.push(bound(giver.id, 10 ** 6, (said) => ({ key: delegate.name, signature: delegate.signed("payee", said), delegation })));
  return { entries: entries.sort(byActor), format: "omnigate-payees/1", policy: policy.id, version: 1 + below(9) };
}

// The files of what an epoch takes over.
function broughtFiles(brought, authority) {
  const signed = (kind, document) => canonical({ format: `omnigate-signed-${kind}/1`, [kind]: document,
    signatures: [{ key: authority.name, signature: authority.signed(kind, canonical(document)) }] });
  const files = [["brought.json", canonical(broughtDocument(brought))], ["carried.jsonl", carriedLines(brought.carried)]];
  for (const one of brought.corrections) {
    files.push([`corrections/${correctionHash(one).slice("b3k:".length)}.json`, signed("correction", one)]);
  }
  if (brought.payees !== null) files.push(["payees.json", signed("payees", brought.payees)]);
  return files;
}

// An epoch with all its files: name -> contents.
function madeUp(seed) {
  const random = chance(seed);
  const { below, choice } = random;
  const [policy, authority, epoch] = [somePolicy(random), keyOf(250), below(10 ** 6)];
  const actors = NAMES.filter(() => below(2) > 0).concat(["actor"]);
  for (let more = choice([0, 3, 12]); more > 0; more--) actors.push(`actor-${below(10 ** 6)}`);
  const nodes = [1, 2, 3, 4].slice(0, below(5)).map(keyOf).sort((a, b) => byBytes(a.id, b.id));
  const rows = nodes.map(() => someRows(random, actors));
  const list = nodes.map((node, at) => snapshot(node.id, epoch, rows[at]));
  const keys = [21, 22, 23].map(keyOf);
  const isLinked = policy.ruleset === 3;
  const brought = isLinked ? someBrought(random, policy, [...new Set([...actors, keys[0].id, keys[1].id])], keys) : NOTHING;
  const result = run(policy, epoch, list, rows, brought);
  const files = new Map([["inputs.json", canonical(list)], ["run.json", result.document],
    ["allocations.jsonl", result.file], ["commitment", `${result.commitment}\n`]]);
  if (isLinked) broughtFiles(brought, authority).forEach(([name, contents]) => files.set(name, contents));
  const signature = authority.signed("policy", canonical(policy));
  files.set("policy.json", canonical({ format: "omnigate-signed-policy/1", policy, signatures: [{ key: authority.name, signature }] }));
  nodes.forEach((node, at) => {
    const root = list[at].rows_root.slice("b3k:".length);
    files.set(`snapshots/${root}.jsonl`, rowLines(rows[at]));
    const seal = { format: "omnigate-seal/1", key: node.name, signature: node.signed("seal", canonical(list[at])), snapshot: list[at] };
    files.set(`snapshots/${root}.${node.digits}.seal.json`, canonical(seal));
  });
  const witness = keyOf(9);
  const word = witness.signed("attestation", `epoch ${epoch}\nrun ${result.commitment}\n`);
  files.set(`attestations/${witness.digits}.json`, canonical(
    { commitment: result.commitment, epoch, format: "omnigate-attestation/1", key: witness.name, signature: word }));
  const trusted = [...nodes, witness].map((node) => `${node.id}\n`).join("");
  return { files, result, trusted, authority, random };
}

function compareOne(program, folder, seed) {
  const { files, result, trusted, authority, random } = madeUp(seed);
  const bundle = join(folder, "bundle"), again = join(folder, "again");
  rmSync(bundle, { recursive: true, force: true });
  for (const below of ["snapshots", "attestations", "corrections"]) mkdirSync(join(bundle, below), { recursive: true });
  for (const [name, contents] of files) writeFileSync(join(bundle, name), contents);
  writeFileSync(join(folder, "nodes"), trusted);
  const omnigate = (...words) => execFileSync(program, ["epoch", ...words], { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
  omnigate("rerun", bundle, "--into", again, "--threads", "1");
  for (const name of ["run.json", "allocations.jsonl", "commitment"]) {
    assert.equal(readFileSync(join(again, name), "utf8"), files.get(name), name);
  }
  if (random.below(5) === 0) {
    // The epoch alone: the runs before it are made up.
    const alone = ["--require", "policy,seals,rows,commitment"];
    omnigate("verify", bundle, ...alone, "--policy-key", authority.name, "--nodes", join(folder, "nodes"), "--threads", "1");
  }
  if (random.below(5) === 0 && result.entries.length > 0) {
    const index = random.below(result.entries.length);
    assert.equal(omnigate("prove", bundle, "--", result.entries[index].actor), result.proof(index), "the proof");
  }
}

// Known answers, so that a wrong hash is not taken for a wrong calculus.
function checkHash() {
  const input = (length) => Buffer.from(Array.from({ length }, (_, at) => at % 251));
  assert.equal(hash(input(0)).toString("hex").slice(0, 16), "af1349b9f5f9a1a6");
  assert.equal(hash(input(1025)).toString("hex").slice(0, 16), "d00278ae47eb27b3");
  assert.equal(keyedHash(Buffer.from("whats the Elvish word for friend"), input(0)).toString("hex").slice(0, 16), "92b2b75604ed3c76");
}

const [command, program, epochs = "100", first = "1"] = process.argv.slice(2);
if (command !== "compare" || program === undefined) {
  console.error("node oracle.mjs compare PROGRAM [EPOCHS] [FIRST SEED]");
  process.exit(2);
}
checkHash();
const folder = mkdtempSync(join(tmpdir(), "oracle-"));
try {
  for (let seed = Number(first); seed < Number(first) + Number(epochs); seed++) {
    try {
      compareOne(program, folder, seed);
    } catch (wrong) {
      console.error(`seed ${seed}: ${wrong.stderr ?? wrong.message}`);
      process.exitCode = 1;
      break;
    }
  }
  if (process.exitCode !== 1) console.log(`${epochs} epochs agree`);
} finally {
  rmSync(folder, { recursive: true, force: true });
}
