// BLAKE3, plain and keyed, by its specification. Small inputs, no speed.

const IV = [0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19];
const ORDER = [2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8];
const CHUNK_START = 1, CHUNK_END = 2, PARENT = 4, ROOT = 8, KEYED = 16;
const CHUNK = 1024, BLOCK = 64;

function mix(s, a, b, c, d, x, y) {
  const turn = (value, by) => (value >>> by) | (value << (32 - by));
  s[a] = s[a] + s[b] + x; s[d] = turn(s[d] ^ s[a], 16); s[c] += s[d]; s[b] = turn(s[b] ^ s[c], 12);
  s[a] = s[a] + s[b] + y; s[d] = turn(s[d] ^ s[a], 8); s[c] += s[d]; s[b] = turn(s[b] ^ s[c], 7);
}

// The chaining value after one block.
function compress(chaining, block, counter, length, flags) {
  const s = new Uint32Array(16);
  s.set(chaining); s.set(IV.slice(0, 4), 8); s.set([counter, Math.floor(counter / 2 ** 32), length, flags], 12);
  const padded = new DataView(new ArrayBuffer(BLOCK));
  block.forEach((byte, at) => padded.setUint8(at, byte));
  let m = Array.from({ length: 16 }, (_, at) => padded.getUint32(4 * at, true));
  for (let round = 0; round < 7; round++) {
    for (let at = 0; at < 4; at++) mix(s, at, 4 + at, 8 + at, 12 + at, m[2 * at], m[2 * at + 1]);
    for (let at = 0; at < 4; at++) {
      mix(s, at, 4 + (at + 1) % 4, 8 + (at + 2) % 4, 12 + (at + 3) % 4, m[8 + 2 * at], m[9 + 2 * at]);
    }
    m = ORDER.map((from) => m[from]);
  }
  return s.slice(0, 8).map((word, at) => word ^ s[8 + at]);
}

const bytes = (words) => {
  const view = new DataView(new ArrayBuffer(32));
  words.forEach((word, at) => view.setUint32(4 * at, word, true));
  return new Uint8Array(view.buffer);
};

// The chaining value of a part of the input; `last` is ROOT for the whole.
function tree(data, key, flags, firstChunk, last) {
  if (data.length <= CHUNK) {
    let value = key;
    const blocks = Math.max(1, Math.ceil(data.length / BLOCK));
    for (let at = 0; at < blocks; at++) {
      const block = data.subarray(at * BLOCK, (at + 1) * BLOCK);
      const ends = at === blocks - 1 ? CHUNK_END | last : 0;
      value = compress(value, block, firstChunk, block.length, flags | (at === 0 ? CHUNK_START : 0) | ends);
    }
    return value;
  }
  // The left part is the greatest power of two of whole chunks that leaves something to the right.
  let left = CHUNK;
  while (left * 2 < data.length) left *= 2;
  const pair = new Uint8Array(BLOCK);
  pair.set(bytes(tree(data.subarray(0, left), key, flags, firstChunk, 0)));
  pair.set(bytes(tree(data.subarray(left), key, flags, firstChunk + left / CHUNK, 0)), 32);
  return compress(key, pair, 0, BLOCK, flags | PARENT | last);
}

export const hash = (data) => Buffer.from(bytes(tree(data, Uint32Array.from(IV), 0, 0, ROOT)));

export function keyedHash(key, data) {
  const view = new DataView(Uint8Array.from(key).buffer);
  const words = Uint32Array.from({ length: 8 }, (_, at) => view.getUint32(4 * at, true));
  return Buffer.from(bytes(tree(data, words, KEYED, 0, ROOT)));
}
