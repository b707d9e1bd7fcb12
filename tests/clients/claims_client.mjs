// Referees for `omnigate epoch claims`: OpenZeppelin's tree for every tree and proof, and a real EVM that pays each claim once and
// refuses every claim that was changed.
//
//   node claims_client.mjs PACKAGES PROGRAM TREES
//
// PACKAGES is the folder where the packages of package.json are installed. The EVM is anvil, on a free port of loopback.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

import { run, snapshot } from "../oracle/calculus.mjs";

const [packages, program, trees] = process.argv.slice(2);
const require = createRequire(`${resolve(packages)}/`);
const { StandardMerkleTree } = require("@openzeppelin/merkle-tree");
const folder = mkdtempSync(join(tmpdir(), "claims-"));
const ENCODING = ["address", "uint256"];

const digits = (text) => createHash("sha256").update(text).digest("hex");
const addressOf = (seed, at) => `0x${digits(`${seed}/${at}`).slice(0, 40)}`;

// An epoch with so many payees. Every third is known by a name, two of these share an address, and the others are addresses.
function epoch(seed, payees) {
  const book = new Map();
  const actors = Array.from({ length: payees }, (_, at) => {
    const address = addressOf(seed, at);
    if (at % 3 !== 0) return address;
    book.set(`node-${at}`, at % 6 === 3 ? addressOf(seed, at - 3) : address);
    return `node-${at}`;
  });
  const rows = actors.map((actor, at) => [actor, "served.bytes", BigInt(`0x${digits(`units ${seed}/${at}`).slice(0, 12)}`) + 1n]);
  const policy = {
    cap_ppm: 1000000, first_epoch: 0, format: "omnigate-policy/1", id: "default", last_epoch: null, min_payout: "0",
    pool: String(10n ** 24n + BigInt(seed)), residual: { rule: "keep" }, ruleset: 1, version: 1, weights_ppm: { "served.bytes": 1000000 },
  };
  const result = run(policy, seed, [snapshot("b3:node", seed, rows)], [rows]);
  writeFileSync(join(folder, "run.json"), result.document);
  writeFileSync(join(folder, "allocations.jsonl"), result.file);
  writeFileSync(join(folder, "addresses.csv"), [...book].map(([actor, address]) => `${actor},${address}\n`).join(""));
  const amounts = new Map();
  for (const line of result.file.trim().split("\n").map((line) => JSON.parse(line))) {
    const address = (book.get(line.actor) ?? line.actor).toLowerCase();
    amounts.set(address, (amounts.get(address) ?? 0n) + BigInt(line.payout));
  }
  return { amounts, paid: BigInt(JSON.parse(result.document).paid) };
}

const claims = (...more) => execFileSync(program, ["epoch", "claims", folder, "--addresses", join(folder, "addresses.csv"), ...more],
  { encoding: "utf8", maxBuffer: 1 << 28 });

// The program's tree, which OpenZeppelin's has to equal to the byte; and every proof, which the root has to hold.
function compareTree(seed, payees) {
  const { amounts, paid } = epoch(seed, payees);
  const tree = StandardMerkleTree.load(JSON.parse(claims()));
  assert.deepEqual(new Map([...tree.entries()].map(([, [address, amount]]) => [address.toLowerCase(), BigInt(amount)])), amounts);
  const own = StandardMerkleTree.of([...tree.entries()].map(([, value]) => value), ENCODING);
  assert.deepEqual(own.dump(), tree.dump());
  for (const [at, value] of tree.entries()) {
    assert(StandardMerkleTree.verify(own.root, ENCODING, value, tree.getProof(at)));
  }
  return { tree, paid };
}

function compile() {
  const solc = require("solc");
  const source = readFileSync(new URL("Payouts.sol", import.meta.url), "utf8");
  const input = {
    language: "Solidity", sources: { "Payouts.sol": { content: source } },
    settings: { evmVersion: "cancun", outputSelection: { "*": { Payouts: ["evm.bytecode.object", "evm.methodIdentifiers"] } } },
  };
  const find = (path) => ({ contents: readFileSync(require.resolve(path), "utf8") });
  const output = JSON.parse(solc.compile(JSON.stringify(input), { import: find }));
  const wrong = (output.errors ?? []).filter((error) => error.severity === "error");
  assert.deepEqual(wrong, []);
  return output.contracts["Payouts.sol"].Payouts.evm;
}

const word = (value) => BigInt(value).toString(16).padStart(64, "0");

async function chain(payOut) {
  const anvil = spawn(join(packages, "node_modules/.bin/anvil"), ["--port", "0", "--host", "127.0.0.1"], { stdio: ["ignore", "pipe", "inherit"] });
  try {
    let told = "";
    const port = await new Promise((found, lost) => {
      anvil.on("exit", () => lost(new Error(`anvil ended: ${told}`)));
      anvil.stdout.on("data", (text) => {
        told += text;
        const at = /Listening on 127\.0\.0\.1:(\d+)/.exec(told);
        if (at) found(at[1]);
      });
    });
    const rpc = async (method, ...params) => {
      const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method, params });
      const answer = await fetch(`http://127.0.0.1:${port}`, { method: "POST", headers: { "content-type": "application/json" }, body });
      return answer.json();
    };
    await payOut(rpc);
  } finally {
    anvil.kill();
  }
}

// Pays every claim of the tree on the chain, and tries every claim that was changed in some way before and after.
async function payOut(rpc, contract, { tree, paid }) {
  const [from] = (await rpc("eth_accounts")).result;
  const send = async (transaction) => {
    const sent = await rpc("eth_sendTransaction", { from, gas: "0x1000000", ...transaction });
    assert(sent.result, JSON.stringify(sent.error));
    for (;;) {
      const receipt = (await rpc("eth_getTransactionReceipt", sent.result)).result;
      if (receipt) return receipt;
    }
  };
  const made = await send({ data: `0x${contract.bytecode.object}${tree.root.slice(2)}${word(paid)}` });
  const to = made.contractAddress;
  const method = (signature) => contract.methodIdentifiers[signature];
  const data = ([payee, amount], proof) =>
    `0x${method("claim(address,uint256,bytes32[])")}${word(payee)}${word(amount)}${word(96)}${word(proof.length)}${proof.map(word).join("")}`;
  const refused = async (value, proof, why) => {
    const answer = await rpc("eth_call", { from, to, data: data(value, proof) });
    assert(answer.error, `the contract pays ${value} with a changed claim: ${why}`);
  };
  const balance = async (payee) => BigInt((await rpc("eth_call", { to, data: `0x${method("balanceOf(address)")}${word(payee)}` })).result);
  let tried = 0;
  for (const [at, value] of tree.entries()) {
    const [payee, amount] = value;
    const proof = tree.getProof(at);
    const flipped = (which) => proof.map((hash, place) => (place === which ? `0x${word(BigInt(hash) ^ 1n)}` : hash));
    const changed = [
      [[payee, BigInt(amount) + 1n], proof, "more"], [[payee, BigInt(amount) - 1n], proof, "less"],
      [[from, amount], proof, "another payee"], [value, [...proof, tree.root], "longer"],
      ...proof.map((_, which) => [value, flipped(which), `hash ${which}`]),
      ...(proof.length > 0 ? [[value, proof.slice(1), "shorter"], [value, [], "empty"]] : []),
    ];
    for (const [other, path, why] of changed) await refused(other, path, why);
    assert.equal((await send({ to, data: data(value, proof) })).status, "0x1", `the contract does not pay ${value}`);
    assert.equal(await balance(payee), BigInt(amount));
    await refused(value, proof, "a second time");
    tried += changed.length + 1;
  }
  assert.equal(await balance(to), 0n, "all that is paid is claimed");
  return tried;
}

try {
  for (let payees = 1; payees <= Number(trees); payees++) compareTree(payees, payees);
  const one = JSON.parse(claims("--proof", addressOf(Number(trees), 1)));
  assert(StandardMerkleTree.verify(one.root, ENCODING, [one.address, one.amount], one.proof), "the proof of one address");
  const contract = compile();
  let [paid, refused] = [0, 0];
  await chain(async (rpc) => {
    for (const payees of [1, 2, 3, 37]) {
      const made = compareTree(1000 + payees, payees);
      refused += await payOut(rpc, contract, made);
      paid += [...made.tree.entries()].length;
    }
  });
  console.log(`${trees} trees agree; the chain paid ${paid} claims and refused ${refused}`);
} finally {
  rmSync(folder, { recursive: true, force: true });
}
