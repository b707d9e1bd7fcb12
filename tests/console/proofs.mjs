// The page's own BLAKE3 and its checker of proofs, against what is known.

import assert from "node:assert/strict";
import { cpSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

/** The page's scripts are modules because the page says so; here a manifest beside a copy of them does. */
async function load(...names) {
  const dir = mkdtempSync(join(tmpdir(), "page-"));
  cpSync(fileURLToPath(new URL("../../bin/omnigate/src/admin/console/page", import.meta.url)), dir, { recursive: true });
  writeFileSync(join(dir, "package.json"), '{ "type": "module" }');
  const loaded = await Promise.all(names.map((name) => import(pathToFileURL(join(dir, name)))));
  rmSync(dir, { recursive: true });
  return loaded;
}

const [{ blake3 }, { canonical, check }] = await load("blake3.js", "proof.js");

const hex = (bytes) => Buffer.from(bytes).toString("hex");
const bytes = (text) => new TextEncoder().encode(text);
const key = (name) => bytes(`omnigate.rewards.${name}.1`.padEnd(32, "."));
const digest = (hash) => `b3k:${hex(hash)}`;

/** From the vectors of BLAKE3: the input counts from 0 to 250 again and again. */
const KNOWN = {
  0: ["af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262", "92b2b75604ed3c761f9d6f62392c8a9227ad0ea3f09573e783f1498a4ed60d26"],
  1: ["2d3adedff11b61f14c886e35afa036736dcd87a74d27b5c1510225d0f592e213", null],
  1025: ["d00278ae47eb27b34faecf67b4fe263f82d5412916c1ffd97c8cb7fb814b8444", null],
  3073: ["7124b49501012f81cc7f11ca069ec9226cecb8a2c850cfe644e327d22d3e1cd3", null],
};

/** A run of three lines, and the proof of each. */
function run() {
  const lines = ["ann", "ben", "cy"].map((actor, at) => ({ actor, extra: 0, payout: String(100 * (at + 1)), rule: "share", score: String(at + 1), share: String(100 * (at + 1)), units: {} }));
  const leaves = lines.map((line) => blake3(bytes(canonical(line)), key("leaf")));
  const join = (left, right) => blake3(Uint8Array.from([...left, ...right]), key("node"));
  const pair = join(leaves[0], leaves[1]);
  const root = digest(join(pair, leaves[2]));
  const manifest = { allocations: { lines: 3, root }, batches: 1, epoch: 7, format: "omnigate-run/1", paid: "600", pool: "1000", residual: "400", score_total: "6" };
  const commitment = digest(blake3(bytes(canonical(manifest)), key("commitment")));
  const paths = [[leaves[1], leaves[2]], [leaves[0], leaves[2]], [pair]];
  const proof = (at) => ({ allocation: lines[at], commitment, epoch: 7, format: "omnigate-proof/1", index: at, lines: 3, path: Buffer.concat(paths[at]).toString("base64url"), root });
  return { manifest, lines, proofs: lines.map((_, at) => proof(at)) };
}

export function checkProofs() {
  for (const [length, [plain, keyed]] of Object.entries(KNOWN)) {
    const input = Uint8Array.from({ length: Number(length) }, (_, at) => at % 251);
    assert.equal(hex(blake3(input)), plain, `${length} bytes`);
    if (keyed) assert.equal(hex(blake3(input, bytes("whats the Elvish word for friend"))), keyed, `${length} bytes with a key`);
  }
  const { manifest, proofs } = run();
  for (const proof of proofs) {
    assert.equal(check(proof, manifest).problem, null);
    assert.ok(check({ ...proof, allocation: { ...proof.allocation, payout: "999" } }, manifest).problem, "another amount");
    assert.ok(check({ ...proof, index: (proof.index + 1) % 3 }, manifest).problem, "another place");
    const longer = Buffer.concat([Buffer.from(proof.path, "base64url"), Buffer.alloc(32)]).toString("base64url");
    assert.match(check({ ...proof, path: longer }, manifest).problem, /too long/);
    assert.match(check({ ...proof, path: "" }, manifest).problem, /too short/);
    assert.match(check({ ...proof, path: `${proof.path}!` }, manifest).problem, /no list/);
    assert.ok(check(proof, { ...manifest, epoch: 8 }).problem, "another run");
    assert.ok(check(proof, null).partial, "without a manifest it says so");
  }
}
