// BLAKE3, as its specification says, for proofs of a few hundred bytes: plain and keyed, 32 bytes out.
"use strict";

const IV = new Uint32Array([0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19]);
const PERMUTATION = [2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8];
const [CHUNK_START, CHUNK_END, PARENT, ROOT, KEYED] = [1, 2, 4, 8, 16];
const [BLOCK, CHUNK] = [64, 1024];

const rotate = (n, by) => (n >>> by) | (n << (32 - by));

function mix(v, a, b, c, d, x, y) {
  v[a] = v[a] + v[b] + x;
  v[d] = rotate(v[d] ^ v[a], 16);
  v[c] += v[d];
  v[b] = rotate(v[b] ^ v[c], 12);
  v[a] = v[a] + v[b] + y;
  v[d] = rotate(v[d] ^ v[a], 8);
  v[c] += v[d];
  v[b] = rotate(v[b] ^ v[c], 7);
}

function compress(chaining, block, counter, length, flags) {
  const v = new Uint32Array(16);
  v.set(chaining);
  v.set(IV.subarray(0, 4), 8);
  v.set([counter, 0, length, flags], 12);
  let words = block;
  for (let round = 0; ; round += 1) {
    mix(v, 0, 4, 8, 12, words[0], words[1]);
    mix(v, 1, 5, 9, 13, words[2], words[3]);
    mix(v, 2, 6, 10, 14, words[4], words[5]);
    mix(v, 3, 7, 11, 15, words[6], words[7]);
    mix(v, 0, 5, 10, 15, words[8], words[9]);
    mix(v, 1, 6, 11, 12, words[10], words[11]);
    mix(v, 2, 7, 8, 13, words[12], words[13]);
    mix(v, 3, 4, 9, 14, words[14], words[15]);
    if (round === 6) break;
    words = Uint32Array.from(PERMUTATION, (from) => words[from]);
  }
  return Uint32Array.from({ length: 8 }, (_, at) => v[at] ^ v[at + 8]);
}

function wordsOf(bytes) {
  const padded = new Uint8Array(BLOCK);
  padded.set(bytes);
  const view = new DataView(padded.buffer);
  return Uint32Array.from({ length: 16 }, (_, at) => view.getUint32(4 * at, true));
}

/** What a subtree comes to, but for its last step, which differs if it is the root. */
function node(bytes, key, flags, counter) {
  if (bytes.length > CHUNK) {
    // The left side holds the largest power of two of chunks that leaves something for the right.
    let left = CHUNK;
    while (left * 2 < bytes.length) left *= 2;
    const sides = [node(bytes.subarray(0, left), key, flags, counter), node(bytes.subarray(left), key, flags, counter + left / CHUNK)];
    const block = new Uint32Array(16);
    sides.forEach((side, at) => block.set(side(0), 8 * at));
    return (root) => compress(key, block, 0, BLOCK, flags | PARENT | root);
  }
  let [chaining, at, start] = [key, 0, CHUNK_START];
  for (; bytes.length - at > BLOCK; at += BLOCK, start = 0) {
    chaining = compress(chaining, wordsOf(bytes.subarray(at, at + BLOCK)), counter, BLOCK, flags | start);
  }
  const last = bytes.subarray(at);
  return (root) => compress(chaining, wordsOf(last), counter, last.length, flags | start | CHUNK_END | root);
}

/** The hash of some bytes, under a key of 32 bytes if there is one. */
export function blake3(bytes, key) {
  const words = key ? wordsOf(key).slice(0, 8) : IV;
  const hash = node(bytes, words, key ? KEYED : 0, 0)(ROOT);
  const out = new DataView(new ArrayBuffer(32));
  hash.forEach((word, at) => out.setUint32(4 * at, word, true));
  return new Uint8Array(out.buffer);
}
