// A client of OAP/1 written from docs/oap-1.md (and docs/capabilities.md for tokens), with nothing but Node.
//
//     node oap_client.mjs PAGE NODE ADMIN [TOKEN]
//
// PAGE is docs/oap-1.md, whose vectors are read; NODE is where the overlay listens, in the clear, or over TLS if there is a
// TOKEN; ADMIN is the node's admin listener.

import assert from 'node:assert/strict';
import crypto from 'node:crypto';
import fs from 'node:fs';
import net from 'node:net';
import { hash } from '../oracle/blake3.mjs';
import { RawKeyTls } from './tls13_raw_keys.mjs';

const KIND = { HELLO: 1, START: 2, DATA: 3, END: 4, ACK: 5, ERROR: 6, GOAWAY: 7, PING: 8, PONG: 9, PUB: 16, IHAVE: 17, IWANT: 18,
  GRAFT: 19, PRUNE: 20, SUB: 21, UNSUB: 22, PUBACK: 23, PATTERNS: 24 };
const NAME = Object.fromEntries(Object.entries(KIND).map(([name, kind]) => [kind, name]));
const CODES = ['none', 'malformed', 'frame_cap', 'unknown_kind', 'version', 'out_of_order', 'checksum', 'unauth', 'forbidden', 'busy',
  'quota', 'limit', 'not_found', 'range', 'mismatch', 'too_large', 'timeout', 'draining', 'duplicate', 'cancelled', 'internal'];
const SIGNED = 1, PROVEN = 2;

const u8 = (value) => Buffer.from([value]);
const u16 = (value) => { const b = Buffer.alloc(2); b.writeUInt16BE(value); return b; };
const u32 = (value) => { const b = Buffer.alloc(4); b.writeUInt32BE(value); return b; };
const u64 = (value) => { const b = Buffer.alloc(8); b.writeBigUInt64BE(BigInt(value)); return b; };
const topicBytes = (topic) => Buffer.concat([u8(topic.length), Buffer.from(topic)]);
const entryBytes = ({ publisher, incarnation, seq }) => Buffer.concat([publisher, u64(incarnation), u64(seq)]);

function frame(kind, header, body = Buffer.alloc(0), { flags = 0, stream = 0 } = {}) {
  return Buffer.concat([u32(8 + header.length + body.length), u8(kind), u8(flags), u16(header.length), u32(stream), header, body]);
}

class Reader {
  constructor(data) { this.data = data; this.at = 0; }
  take(length) {
    if (this.at + length > this.data.length) throw new Error('a field is cut short');
    return this.data.subarray(this.at, this.at += length);
  }
  u8() { return this.take(1)[0]; }
  u16() { return this.take(2).readUInt16BE(); }
  u32() { return this.take(4).readUInt32BE(); }
  u64() { return this.take(8).readBigUInt64BE(); }
  topic() { return this.take(this.u8()).toString(); }
  entry() { return { publisher: this.take(32), incarnation: this.u64(), seq: this.u64() }; }
  proof() { return { key: this.take(32), signature: this.take(64) }; }
  left() { return this.data.length - this.at; }
  rest() { return this.take(this.left()); }
  end() { if (this.left()) throw new Error('bytes after the last field'); }
}

// What a whole frame says.
function parse(bytes) {
  const [kind, flags, headerLength, stream] = [bytes[4], bytes[5], bytes.readUInt16BE(6), bytes.readUInt32BE(8)];
  const h = new Reader(bytes.subarray(12, 12 + headerLength)), b = new Reader(bytes.subarray(12 + headerLength));
  const list = (read) => { const all = []; while (b.left()) all.push(read()); return all; };
  const name = NAME[kind];
  if (!name) throw new Error(`an unknown kind: ${kind}`);
  const fields = {
    HELLO: () => {
      const said = { magic: h.take(4), version: h.u16(), node: h.take(32), features: h.u32(), longest: h.u32(), credit: h.u32(),
        streams: h.u16(), rate: h.u32(), token: h.take(h.u16()) };
      return { ...said, topics: list(() => b.topic()) };
    },
    START: () => (h.u8() === 1 ? { op: 'get', object: h.take(32), offset: h.u64(), length: h.u64(), tail: h.u8() }
      : { op: 'put', object: h.take(32), length: h.u64() }),
    DATA: () => ({ length: h.u64(), offset: h.u64(), proof: h.rest(), body: b.rest() }),
    END: () => ({}),
    ACK: () => ({ credit: h.u32() }),
    ERROR: () => {
      const said = { code: CODES[h.u16()], retryAfter: h.u32() };
      const about = h.u8() ? { ...h.entry(), topic: h.topic() } : null;
      return { ...said, about, text: b.rest().toString() };
    },
    GOAWAY: () => ({ code: CODES[h.u16()], last: h.u32(), text: b.rest().toString() }),
    PING: () => ({ number: h.u64() }),
    PONG: () => ({ number: h.u64() }),
    PUB: () => ({ hops: h.u8(), ...h.entry(), topic: h.topic(), digest: h.take(32),
      signature: flags & SIGNED ? h.take(64) : null, proof: flags & PROVEN ? h.proof() : null, body: b.rest() }),
    IHAVE: () => {
      const said = { topic: h.topic(), entries: h.u16(), heads: h.u16() };
      const many = (count, read) => Array.from({ length: count }, read);
      return { ...said, entries: many(said.entries, () => b.entry()), heads: many(said.heads, () => ({ ...b.entry(), proof: b.proof() })) };
    },
    IWANT: () => ({ topic: h.topic(), entries: list(() => b.entry()) }),
    GRAFT: () => ({ topic: h.topic(), missing: b.left() ? b.entry() : null }),
    PRUNE: () => ({ topic: h.topic() }),
    SUB: () => ({ topic: h.topic() }),
    UNSUB: () => ({ topic: h.topic() }),
    PUBACK: () => ({ topic: h.topic(), incarnation: h.u64(), numbers: list(() => b.u64()) }),
    PATTERNS: () => ({ patterns: list(() => ({ hops: b.u8(), pattern: b.take(b.u8()).toString() })) }),
  }[name]();
  h.end();
  b.end();
  return { name, stream, flags, ...fields };
}

// Who a client is: an Ed25519 key, named by its BLAKE3.
class Identity {
  constructor() {
    Object.assign(this, crypto.generateKeyPairSync('ed25519'));
    this.raw = Buffer.from(this.publicKey.export({ format: 'jwk' }).x, 'base64url');
    this.node = hash(this.raw);
    this.incarnation = BigInt(Date.now());
  }

  sign(data) { return crypto.sign(null, data, this.privateKey); }

  // A publication of its own, with a proof of its head.
  publication(topic, seq, text) {
    const body = Buffer.from(text), entry = { publisher: this.node, incarnation: this.incarnation, seq };
    const head = Buffer.concat([Buffer.from('OAP/1 head\0'), entryBytes(entry), Buffer.from(topic)]);
    const header = [u8(0), entryBytes(entry), topicBytes(topic), hash(body), this.raw, this.sign(head)];
    return frame(KIND.PUB, Buffer.concat(header), body, { flags: PROVEN });
  }
}

// Whether a head's proof is its publisher's word.
function isProven({ publisher, incarnation, seq, proof }, topic) {
  const message = Buffer.concat([Buffer.from('OAP/1 head\0'), entryBytes({ publisher, incarnation, seq }), Buffer.from(topic)]);
  const key = crypto.createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x: proof.key.toString('base64url') }, format: 'jwk' });
  return hash(proof.key).equals(publisher) && crypto.verify(null, message, key, proof.signature);
}

// A token for one connection: with a caveat of kind 10, and the tag that belongs to it.
function bound(token, channel) {
  const bytes = Buffer.from(token.slice(4), 'base64url'), caveat = Buffer.concat([u8(10), u8(32), channel]);
  const tag = crypto.createHmac('sha256', bytes.subarray(-32)).update(caveat).digest();
  return Buffer.from('og1.' + Buffer.concat([bytes.subarray(0, -32), caveat, tag]).toString('base64url'));
}

class Session {
  static async open(address, me, { token = null, topics = [], greet = true } = {}) {
    const [host, port] = address.split(':'), session = new Session();
    Object.assign(session, { me, frames: [], waiting: [], received: Buffer.alloc(0), over: false });
    session.wire = token ? await RawKeyTls.connect(host, port, me.privateKey, me.publicKey) : net.connect(port, host);
    session.wire.on('data', (data) => session.receive(data));
    session.wire.on('error', () => {});
    for (const last of ['end', 'close']) session.wire.on(last, () => { session.over = true; session.wake(); });
    if (!greet) return session;
    const shown = token ? bound(token, session.wire.export('EXPERIMENTAL OAP/1 token', me.node, 32)) : Buffer.alloc(0);
    const header = [Buffer.from('4f41500a', 'hex'), u16(1), me.node, u32(2), u32(1 << 20), u32(1 << 18), u16(4), u32(0),
      u16(shown.length), shown];
    session.wire.write(frame(KIND.HELLO, Buffer.concat(header), Buffer.concat(topics.map(topicBytes))));
    session.hello = await session.next('HELLO');
    return session;
  }

  receive(data) {
    this.received = Buffer.concat([this.received, data]);
    while (this.received.length >= 4 && this.received.length >= 4 + this.received.readUInt32BE()) {
      const length = 4 + this.received.readUInt32BE();
      const message = parse(this.received.subarray(0, length));
      this.received = this.received.subarray(length);
      if (message.name === 'PING') this.wire.write(frame(KIND.PONG, u64(message.number)));
      else this.frames.push(message);
    }
    this.wake();
  }

  wake() { this.waiting.splice(0).forEach((resolve) => resolve()); }

  // The next message of a kind that is wanted; null at the end of the session.
  async next(name, wanted = () => true) {
    for (;;) {
      const at = this.frames.findIndex((message) => message.name === name && wanted(message));
      if (at >= 0) return this.frames.splice(at, 1)[0];
      const refused = name !== 'ERROR' && this.frames.find((message) => message.name === 'ERROR');
      if (refused) throw new Error(`refused: ${refused.code} ${refused.text}`);
      if (this.over) return null;
      await new Promise((resolve) => this.waiting.push(resolve));
    }
  }

  say(...args) { this.wire.write(frame(...args)); }
}

const TOPIC = 'news/js';
const [page, address, admin, token] = process.argv.slice(2);
setTimeout(() => { console.error('it took too long'); process.exit(1); }, 60_000).unref();

async function publishThere(text) {
  const answer = await fetch(`http://${admin}/overlay/pub/${TOPIC}`, { method: 'POST', headers: { 'X-Omnigate': '1' }, body: text });
  return answer.json();
}

// Every vector of the page is one frame that can be read.
function vectors() {
  const blocks = [...fs.readFileSync(page, 'utf8').matchAll(/^```hex (\S+)\n([^`]*)```/gm)];
  assert.ok(blocks.length > 20, `${blocks.length} vectors`);
  for (const [, name, text] of blocks.filter(([, name]) => name !== 'ping-crc32c')) {
    const bytes = Buffer.from(text.replace(/#.*$/gm, '').replace(/\s/g, ''), 'hex');
    assert.equal(bytes.readUInt32BE() + 4, bytes.length, name);
    const message = parse(bytes);
    assert.equal(message.name.toLowerCase(), name.split('-')[0], name);
    if (message.name === 'PUB') assert.ok(hash(message.body).equals(message.digest), name);
  }
}

async function gossip(session, me) {
  session.say(KIND.PING, u64(7));
  assert.equal((await session.next('PONG')).number, 7n);
  // What it publishes is taken on, also twice, and heard at the node.
  const events = await fetch(`http://${admin}/overlay/sub/${TOPIC}`);
  assert.equal(events.status, 200);
  const heard = events.body.pipeThrough(new TextDecoderStream()).getReader();
  for (const seq of [1, 2, 3, 3]) session.wire.write(me.publication(TOPIC, seq, `from JavaScript ${seq}`));
  const taken = new Set();
  while (taken.size < 3) {
    const ack = await session.next('PUBACK');
    assert.deepEqual([ack.topic, ack.incarnation], [TOPIC, me.incarnation]);
    ack.numbers.forEach((number) => taken.add(number));
  }
  let text = '';
  while (!text.includes('from JavaScript 3')) text += (await heard.read()).value;
  assert.match(text, /event: publication/);
  assert.equal(text.split('from JavaScript 3').length, 2, 'heard once');
  await heard.cancel();
  // What the node publishes is pushed to it, with a digest and a proof that are right.
  session.say(KIND.SUB, topicBytes(TOPIC));
  const said = await publishThere('from the node');
  const pushed = await session.next('PUB', (pub) => pub.body.toString() === 'from the node');
  assert.ok(hash(pushed.body).equals(pushed.digest) && pushed.hops === 0);
  assert.equal('b3:' + pushed.publisher.toString('hex'), said.id.publisher);
  assert.ok(isProven(pushed, TOPIC), 'the first publication of a topic has a proof');
  session.say(KIND.PUBACK, Buffer.concat([topicBytes(TOPIC), u64(pushed.incarnation)]), u64(pushed.seq));
  // What it has not been sent it asks for: heads are announced, and what they tell of can be had.
  session.say(KIND.PRUNE, topicBytes(TOPIC));
  session.say(KIND.PING, u64(8));
  await session.next('PONG');
  const missed = await publishThere('to be asked for');
  const seq = BigInt(missed.id.seq);
  const tells = (all) => all.some((one) => one.publisher.equals(pushed.publisher) && one.seq >= seq);
  const told = await session.next('IHAVE', (have) => tells(have.heads) || tells(have.entries));
  assert.ok(told.heads.every((head) => isProven(head, TOPIC)), 'heads are proven');
  session.say(KIND.IWANT, topicBytes(TOPIC), entryBytes({ ...pushed, seq }));
  assert.equal((await session.next('PUB', (pub) => pub.seq === seq)).body.toString(), 'to be asked for');
}

async function objects(session) {
  const content = Buffer.from('an object of one group'), id = hash(content);
  const length = u64(content.length);
  session.say(KIND.START, Buffer.concat([u8(2), id, length]), undefined, { stream: 1 });
  session.say(KIND.DATA, Buffer.concat([length, u64(0)]), content, { stream: 1 });
  session.say(KIND.END, Buffer.alloc(0), undefined, { stream: 1 });
  await session.next('END', (end) => end.stream === 1);
  session.say(KIND.START, Buffer.concat([u8(1), id, u64(0), u64(0xffffffffffffffffn), u8(1)]), undefined, { stream: 3 });
  const data = await session.next('DATA', (piece) => piece.stream === 3);
  assert.ok(data.body.equals(content) && data.length === BigInt(content.length) && data.proof.length === 0);
  await session.next('END', (end) => end.stream === 3);
  session.say(KIND.START, Buffer.concat([u8(1), Buffer.alloc(32, 9), u64(0), u64(1), u8(0)]), undefined, { stream: 5 });
  assert.equal((await session.next('ERROR', (error) => error.stream === 5)).code, 'not_found');
}

// Who breaks a rule is told which, and the connection is closed.
async function refusals() {
  const cases = [
    ['malformed', frame(KIND.PING, u64(1), u8(0))],
    ['unknown_kind', frame(99, Buffer.alloc(0))],
    ['frame_cap', u32((1 << 20) + 1)],
    ['out_of_order', frame(KIND.END, Buffer.alloc(0), undefined, { stream: 1 })],
    ['mismatch', new Identity().publication(TOPIC, 1, 'in the name of another')],
  ];
  for (const [code, bytes] of cases) {
    const session = await Session.open(address, new Identity(), { token, topics: [TOPIC] });
    session.wire.write(bytes);
    const error = await session.next('ERROR');
    assert.equal(error.code, code);
    assert.ok(error.text.length > 0 && error.text !== code, error.text);
    while (await session.next('ERROR')) { /* until it is closed */ }
  }
  if (token) {
    // A token as it is, and one that is bound to another connection.
    for (const shown of [Buffer.from(token), bound(token, Buffer.alloc(32, 7))]) {
      const me = new Identity(), session = await Session.open(address, me, { token, greet: false });
      const header = [Buffer.from('4f41500a', 'hex'), u16(1), me.node, u32(0), u32(1 << 20), u32(1 << 18), u16(4), u32(0),
        u16(shown.length), shown];
      session.say(KIND.HELLO, Buffer.concat(header));
      assert.equal((await session.next('ERROR')).code, 'unauth');
    }
  }
}

vectors();
const me = new Identity();
const session = await Session.open(address, me, { token, topics: [] });
assert.equal(session.hello.version, 1);
await gossip(session, me);
await objects(session);
await refusals();
session.say(KIND.GOAWAY, Buffer.concat([u16(0), u32(0)]));
session.wire.end();
console.log('everything is as the page says');
process.exit(0);
