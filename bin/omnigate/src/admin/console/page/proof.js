// Checks a payout's proof here, in the browser: from the line to the root, and from the manifest to the commitment.
"use strict";

import { blake3 } from "./blake3.js";

const utf8 = new TextEncoder();

/** Each kind of thing is hashed under a key of its own: its name, filled up with dots. */
const key = (name) => utf8.encode(`omnigate.rewards.${name}.1`.padEnd(32, "."));
const [LEAF, NODE, COMMITMENT] = ["leaf", "node", "commitment"].map(key);

const digest = (bytes) => `b3k:${[...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;

/** JSON with sorted keys and no spaces, as it is hashed (RFC 8785; all numbers in these documents are whole). */
export function canonical(value) {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  return `{${Object.keys(value).sort().map((name) => `${JSON.stringify(name)}:${canonical(value[name])}`).join(",")}}`;
}

/** The hashes of a path; `null` if it is none. */
function hashes(text) {
  if (typeof text !== "string" || !/^[\w-]*$/.test(text) || text.length % 4 === 1) return null;
  const bytes = Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (character) => character.charCodeAt(0));
  if (bytes.length % 32) return null;
  return Array.from({ length: bytes.length / 32 }, (_, at) => bytes.subarray(32 * at, 32 * at + 32));
}

/** The steps from a proof's line to its root, and what is wrong, if anything is: `{ steps, problem }`. */
export function check(proof, manifest) {
  const steps = [];
  if (proof?.format !== "omnigate-proof/1") return { steps, problem: "it is no proof of this kind" };
  if (!(proof.index < proof.lines)) return { steps, problem: "there is no such line" };
  const path = hashes(proof.path);
  if (!path) return { steps, problem: "the path is no list of hashes" };
  let at = blake3(utf8.encode(canonical(proof.allocation)), LEAF);
  steps.push(["line", digest(at)]);
  for (let [index, lines] = [proof.index, proof.lines]; lines > 1; [index, lines] = [Math.floor(index / 2), Math.ceil(lines / 2)]) {
    const isRight = index % 2 === 1;
    // The last of an odd number moves up as it is.
    if (!isRight && index + 1 >= lines) continue;
    const other = path.shift();
    if (!other) return { steps, problem: "the path is too short" };
    at = blake3(Uint8Array.from(isRight ? [...other, ...at] : [...at, ...other]), NODE);
    steps.push([isRight ? "with its left neighbour" : "with its right neighbour", digest(at)]);
  }
  if (path.length) return { steps, problem: "the path is too long" };
  if (digest(at) !== proof.root) return { steps, problem: "the path does not lead to the root" };
  if (!manifest) return { steps, problem: null, partial: "the root is the proof's own: no manifest to compare it with" };
  const commitment = digest(blake3(utf8.encode(canonical(manifest)), COMMITMENT));
  steps.push(["the manifest's commitment", commitment]);
  const same = commitment === proof.commitment && manifest.allocations?.root === proof.root
    && manifest.allocations?.lines === proof.lines && manifest.epoch === proof.epoch;
  return { steps, problem: same ? null : "it is about another run than the manifest" };
}
