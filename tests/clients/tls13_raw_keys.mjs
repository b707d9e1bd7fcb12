// A client of TLS 1.3 with raw public keys both ways, as docs/oap-1.md asks for: x25519, Ed25519, TLS_AES_128_GCM_SHA256.
// Node's own TLS has no raw keys. For tests: it checks what it is told to, and nothing that an attacker would try.

import crypto from 'node:crypto';
import net from 'node:net';
import { EventEmitter } from 'node:events';

const u16 = (value) => Buffer.from([value >> 8, value & 255]);
const u24 = (value) => Buffer.from([value >> 16, (value >> 8) & 255, value & 255]);
const vec8 = (data) => Buffer.concat([Buffer.from([data.length]), data]);
const vec16 = (data) => Buffer.concat([u16(data.length), data]);
const vec24 = (data) => Buffer.concat([u24(data.length), data]);
const sha256 = (...parts) => crypto.createHash('sha256').update(Buffer.concat(parts)).digest();
const hmac = (key, data) => crypto.createHmac('sha256', key).update(data).digest();

function expandLabel(secret, label, context, length) {
  const info = Buffer.concat([u16(length), vec8(Buffer.from('tls13 ' + label)), vec8(context)]);
  let block = Buffer.alloc(0), out = Buffer.alloc(0);
  for (let count = 1; out.length < length; count++) {
    block = hmac(secret, Buffer.concat([block, info, Buffer.from([count])]));
    out = Buffer.concat([out, block]);
  }
  return out.subarray(0, length);
}

// The keys of one direction.
class Keys {
  constructor(secret) {
    this.secret = secret;
    this.key = expandLabel(secret, 'key', Buffer.alloc(0), 16);
    this.iv = expandLabel(secret, 'iv', Buffer.alloc(0), 12);
    this.number = 0n;
  }

  nonce() {
    const nonce = Buffer.from(this.iv), number = Buffer.alloc(12);
    number.writeBigUInt64BE(this.number++, 4);
    return nonce.map((byte, at) => byte ^ number[at]);
  }

  seal(type, data) {
    const inner = Buffer.concat([data, Buffer.from([type])]);
    const head = Buffer.concat([Buffer.from([23, 3, 3]), u16(inner.length + 16)]);
    const cipher = crypto.createCipheriv('aes-128-gcm', this.key, this.nonce()).setAAD(head);
    return Buffer.concat([head, cipher.update(inner), cipher.final(), cipher.getAuthTag()]);
  }

  open(head, body) {
    const cipher = crypto.createDecipheriv('aes-128-gcm', this.key, this.nonce()).setAAD(head);
    cipher.setAuthTag(body.subarray(-16));
    let inner = Buffer.concat([cipher.update(body.subarray(0, -16)), cipher.final()]);
    let end = inner.length - 1;
    while (inner[end] === 0) end--;
    return [inner[end], inner.subarray(0, end)];
  }
}

// What both sides sign.
const signed = (who, transcript) =>
  Buffer.concat([Buffer.alloc(64, 32), Buffer.from(`TLS 1.3, ${who} CertificateVerify\0`), transcript]);

// Emits 'data' and 'end', like a socket.
export class RawKeyTls extends EventEmitter {
  static async connect(host, port, privateKey, publicKey) {
    const tls = new RawKeyTls();
    tls.socket = net.connect(port, host);
    tls.privateKey = privateKey;
    tls.spki = publicKey.export({ type: 'spki', format: 'der' });
    tls.received = Buffer.alloc(0);
    tls.handshakes = Buffer.alloc(0);
    tls.transcript = [];
    await new Promise((resolve, reject) => {
      tls.ready = resolve;
      tls.socket.on('error', reject);
      tls.socket.on('connect', () => tls.hello());
      tls.socket.on('data', (data) => { try { tls.receive(data); } catch (error) { reject(error); tls.socket.destroy(); } });
      tls.socket.on('close', () => { reject(new Error('closed in the handshake')); tls.emit('end'); });
    });
    return tls;
  }

  hello() {
    this.share = crypto.generateKeyPairSync('x25519');
    const raw = Buffer.from(this.share.publicKey.export({ format: 'jwk' }).x, 'base64url');
    const extension = (type, data) => Buffer.concat([u16(type), vec16(data)]);
    const extensions = Buffer.concat([
      extension(43, vec8(u16(0x0304))), extension(10, vec16(u16(0x001d))), extension(13, vec16(u16(0x0807))),
      extension(51, vec16(Buffer.concat([u16(0x001d), vec16(raw)]))), extension(16, vec16(vec8(Buffer.from('oap/1')))),
      extension(19, vec8(Buffer.from([2]))), extension(20, vec8(Buffer.from([2]))),
    ]);
    const body = Buffer.concat([u16(0x0303), crypto.randomBytes(32), vec8(Buffer.alloc(0)), vec16(u16(0x1301)),
      vec8(Buffer.from([0])), vec16(extensions)]);
    const message = this.note(1, body);
    this.socket.write(Buffer.concat([Buffer.from([22, 3, 1]), vec16(message)]));
  }

  // A handshake message, which is part of the transcript.
  note(type, body) {
    const message = Buffer.concat([Buffer.from([type]), vec24(body)]);
    this.transcript.push(message);
    return message;
  }

  hash() { return sha256(...this.transcript); }

  derive(secret, label, transcript) { return expandLabel(secret, label, transcript, 32); }

  receive(data) {
    this.received = Buffer.concat([this.received, data]);
    while (this.received.length >= 5 && this.received.length >= 5 + this.received.readUInt16BE(3)) {
      const end = 5 + this.received.readUInt16BE(3);
      const [head, body] = [this.received.subarray(0, 5), this.received.subarray(5, end)];
      this.received = this.received.subarray(end);
      if (head[0] === 20) continue;
      const [type, plain] = head[0] === 23 ? this.reads.open(head, body) : [head[0], body];
      if (type === 23) this.emit('data', plain);
      else if (type === 21) this.alerted(plain);
      else if (type === 22) this.handshake(plain);
      else throw new Error(`a record of type ${type}`);
    }
  }

  alerted(alert) {
    if (alert[1] !== 0) this.socket.destroy(new Error(`TLS alert ${alert[1]}`));
    else this.socket.end();
  }

  handshake(data) {
    this.handshakes = Buffer.concat([this.handshakes, data]);
    while (this.handshakes.length >= 4 && this.handshakes.length >= 4 + this.handshakes.readUIntBE(1, 3)) {
      const end = 4 + this.handshakes.readUIntBE(1, 3);
      const message = this.handshakes.subarray(0, end);
      this.handshakes = this.handshakes.subarray(end);
      this.message(message[0], message.subarray(4));
    }
  }

  message(type, body) {
    const before = this.hash();
    this.note(type, body);
    if (type === 2) this.agree(body);
    else if (type === 11) this.peerSpki = body.subarray(7, 7 + body.readUIntBE(4, 3));
    else if (type === 13) this.context = body.subarray(1, 1 + body[0]);
    else if (type === 15) {
      this.peerKey = crypto.createPublicKey({ key: this.peerSpki, type: 'spki', format: 'der' });
      if (body.readUInt16BE(0) !== 0x0807) throw new Error('not signed with Ed25519');
      if (!crypto.verify(null, signed('server', before), this.peerKey, body.subarray(4))) throw new Error('a wrong signature');
    } else if (type === 20) this.finish(before, body);
  }

  agree(hello) {
    let at = 2 + 32;
    at += 1 + hello[at] + 2 + 1 + 2;
    let share = null;
    while (at < hello.length) {
      const [type, length] = [hello.readUInt16BE(at), hello.readUInt16BE(at + 2)];
      if (type === 51) share = hello.subarray(at + 8, at + 4 + length);
      at += 4 + length;
    }
    const x = share.toString('base64url');
    const theirs = crypto.createPublicKey({ key: { kty: 'OKP', crv: 'X25519', x }, format: 'jwk' });
    const shared = crypto.diffieHellman({ privateKey: this.share.privateKey, publicKey: theirs });
    const zero = Buffer.alloc(32), empty = sha256();
    const early = hmac(zero, zero);
    const handshake = hmac(this.derive(early, 'derived', empty), shared);
    this.master = hmac(this.derive(handshake, 'derived', empty), zero);
    this.writes = new Keys(this.derive(handshake, 'c hs traffic', this.hash()));
    this.reads = new Keys(this.derive(handshake, 's hs traffic', this.hash()));
  }

  finish(before, mac) {
    const finished = (keys, transcript) => hmac(expandLabel(keys.secret, 'finished', Buffer.alloc(0), 32), transcript);
    if (!finished(this.reads, before).equals(mac)) throw new Error('a wrong Finished');
    const reads = new Keys(this.derive(this.master, 's ap traffic', this.hash()));
    const writes = new Keys(this.derive(this.master, 'c ap traffic', this.hash()));
    this.exporter = this.derive(this.master, 'exp master', this.hash());
    const entry = Buffer.concat([vec24(this.spki), u16(0)]);
    this.socket.write(this.writes.seal(22, this.note(11, Buffer.concat([vec8(this.context), vec24(entry)]))));
    const signature = crypto.sign(null, signed('client', this.hash()), this.privateKey);
    this.socket.write(this.writes.seal(22, this.note(15, Buffer.concat([u16(0x0807), vec16(signature)]))));
    this.socket.write(this.writes.seal(22, this.note(20, finished(this.writes, this.hash()))));
    [this.reads, this.writes] = [reads, writes];
    this.ready();
  }

  // Bytes that the two ends have in common (RFC 8446, section 7.5).
  export(label, context, length) {
    const secret = this.derive(this.exporter, label, sha256());
    return expandLabel(secret, 'exporter', sha256(context), length);
  }

  write(data) {
    for (let at = 0; at < data.length; at += 16384) this.socket.write(this.writes.seal(23, data.subarray(at, at + 16384)));
  }

  end() {
    this.socket.write(this.writes.seal(21, Buffer.from([1, 0])));
    this.socket.end();
  }
}
