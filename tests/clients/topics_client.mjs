// Uses the client library for JavaScript against a node: publish, subscribe, go on after a cut, be refused.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { createInterface } from "node:readline";

import { Refused, Topics } from "../../clients/js/omnigate.js";

const [url, token] = process.argv.slice(2);
const topics = new Topics(url, { token });
const told = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

/** Has the test cut all connections. */
async function cut() {
  process.stdout.write("cut\n");
  assert.equal((await told.next()).value, "done");
}

const first = await topics.publish("lib.a", "zero");
assert.deepEqual([first.verdict, first.id.seq], ["local_only", 1]);
assert.equal((await topics.publish("lib.a", "one", { wait: 5000 })).id.seq, 2);
const events = topics.subscribe("lib.a", { after: `${first.id.incarnation}-0` });
const next = async () => (await events.next()).value;
let event = await next();
while (event.data.text !== "one") event = await next();
await cut();
await topics.publish("lib.a", "two");
event = await next();
assert.deepEqual([event.kind, event.data.text], ["publication", "two"]);
await cut();
await topics.publish("lib.a", new Uint8Array([0, 255]));
event = await next();
assert.deepEqual([event.kind, event.data.base64], ["publication", "AP8="]);
await events.return();

for (const refused of [() => topics.publish("other", "x"), () => topics.subscribe([">"]).next()]) {
  await assert.rejects(refused, (error) => error instanceof Refused && error.status === 403 && error.reason === "forbidden" && !!error.corrId);
}

// A node that is there and says nothing is asked again.
let asked = 0;
const silent = createServer((_, answer) => {
  asked += 1;
  answer.write(asked === 1 ? ": subscribed\n\n" : 'id: 7-1\nevent: publication\ndata: {"text":"at last"}\n\n');
});
await new Promise((done) => silent.listen(0, "127.0.0.1", done));
const patient = new Topics(`http://127.0.0.1:${silent.address().port}`).subscribe("a", { silence: 200 });
assert.equal((await patient.next()).value.data.text, "at last");
assert.equal(asked, 2);
process.exit(0);
