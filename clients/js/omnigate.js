// Publish and subscribe through a node of Omnigate, in browsers and in Node 20, without any package.
//
//   import { Topics } from "./omnigate.js";
//   const topics = new Topics("http://127.0.0.1:9510", { token: "og1.…" });
//   await topics.publish("chat.room1", "hello");
//   for await (const event of topics.subscribe("chat.>")) {
//     if (event.kind === "publication") console.log(event.data.topic, event.data.text);
//   }
//
// A subscription goes on by itself after its connection breaks, behind the last event it gave out. What was missed is an
// event of its own: `gap`, `lagging`, `not_resumed` or `no_room`.

/** The node does not do what it is asked to. `retryAfter` is when to come back, in milliseconds, if it says so. */
export class Refused extends Error {
  constructor(status, problem) {
    super(`${status} ${problem.reason ?? ""}: ${problem.detail ?? ""}`);
    this.status = status;
    this.reason = problem.reason;
    this.corrId = problem.corr_id;
    this.retryAfter = problem.retry_after_ms ?? undefined;
  }
}

const pause = (ms) => new Promise((done) => setTimeout(done, ms));
const PASSING = [429, 502, 503, 504];
// Silence after which a connection counts as broken: a node shows every 15 s that it is there.
const SILENCE = 45_000;

/** What is read within the time that a node may be silent. */
function inTime(read, silence) {
  let timer;
  const silent = new Promise((_, fail) => {
    timer = setTimeout(() => fail(new Error("the node was silent for too long")), silence);
  });
  return Promise.race([read, silent]).finally(() => clearTimeout(timer));
}

/** The topics of a node. */
export class Topics {
  #base;
  #headers;

  constructor(url, { token } = {}) {
    this.#base = `${url.replace(/\/$/, "")}/v1/topics/`;
    this.#headers = token ? { authorization: `Bearer ${token}` } : {};
  }

  /**
   * Publishes text or bytes: `{ verdict: "accepted" or "local_only", id: {…} }`. A busy node is asked again for `wait`
   * milliseconds, as it says.
   */
  async publish(topic, body, { wait = 0 } = {}) {
    const end = Date.now() + wait;
    for (;;) {
      const url = this.#base + encodeURIComponent(topic);
      const answer = await fetch(url, { method: "POST", headers: this.#headers, body });
      if (answer.ok) return answer.json();
      const refused = await refusal(answer);
      if (refused.status !== 429 || refused.retryAfter === undefined || Date.now() + refused.retryAfter > end) throw refused;
      await pause(refused.retryAfter);
    }
  }

  /**
   * Events of topics and patterns, for as long as they are asked for; `after` is the id of an event to begin behind. A
   * connection on which nothing comes for `silence` milliseconds is made anew.
   */
  async *subscribe(patterns, { after, reconnect = true, signal, silence = SILENCE } = {}) {
    let wait = 100;
    while (!signal?.aborted) {
      try {
        for await (const event of this.#listen([patterns].flat(), { after, signal, silence })) {
          after = event.id ?? after;
          wait = 100;
          if (event.kind === "closed") throw new Refused(401, { reason: event.data.reason, detail: "the token is over" });
          yield event;
        }
      } catch (error) {
        if (signal?.aborted) return;
        const passes = !(error instanceof Refused) || PASSING.includes(error.status);
        if (!reconnect || !passes) throw error;
        wait = error.retryAfter ?? wait;
      }
      if (!reconnect) return;
      await pause(wait);
      wait = Math.min(wait * 2, 5000);
    }
  }

  async *#listen([first, ...others], { after, signal, silence }) {
    const query = others.map((other) => `topic=${encodeURIComponent(other)}`).join("&");
    const url = `${this.#base}${encodeURIComponent(first)}/events${query && "?"}${query}`;
    const headers = { ...this.#headers, ...(after && { "last-event-id": after }) };
    const ending = new AbortController();
    const end = () => ending.abort();
    signal?.addEventListener("abort", end);
    try {
      const answer = await inTime(fetch(url, { headers, signal: ending.signal, cache: "no-store" }), silence);
      if (!answer.ok) throw await refusal(answer);
      const texts = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (;;) {
        const { value, done } = await inTime(texts.read(), silence);
        if (done) return;
        const blocks = (rest + value).split("\n\n");
        rest = blocks.pop();
        for (const block of blocks) {
          const fields = Object.fromEntries(block.split("\n").map((line) => [line.split(":", 1)[0], line.slice(line.indexOf(":") + 2)]));
          if (fields.data) yield { kind: fields.event, id: fields.id, data: JSON.parse(fields.data) };
        }
      }
    } finally {
      signal?.removeEventListener("abort", end);
      end();
    }
  }
}

async function refusal(answer) {
  return new Refused(answer.status, await answer.json().catch(() => ({ detail: answer.statusText })));
}

/**
 * A WebSocket that publishes and hears of topics, for pages. `hear` is called with each event: `{ type, … }`.
 *
 *   const socket = new TopicSocket("ws://127.0.0.1:9510", "chat.>", (event) => show(event), { token });
 *   await socket.publish("chat.room1", "hello");
 */
export class TopicSocket {
  #url;
  #token;
  #hear;
  #socket;
  #cursor;
  #wait = 100;
  #closed = false;
  #numbers = 0;
  #waiting = new Map();

  constructor(url, patterns, hear, { token, after } = {}) {
    const [first, ...others] = [patterns].flat().map(encodeURIComponent);
    const more = others.map((other) => `&topic=${other}`).join("");
    this.#url = (after) => `${url.replace(/\/$/, "")}/v1/topics/${first}/ws?after=${encodeURIComponent(after ?? "")}${more}`;
    this.#token = token;
    this.#hear = hear;
    this.#cursor = after;
    this.#open();
  }

  /** Publishes a text; what became of it, or `Refused`. */
  publish(topic, text) {
    return new Promise((done, fail) => {
      const ref = ++this.#numbers;
      if (this.#socket.readyState !== WebSocket.OPEN) return fail(new Error("the socket is not open"));
      this.#waiting.set(ref, { done, fail });
      this.#socket.send(JSON.stringify({ op: "publish", ref, topic, text }));
    });
  }

  close() {
    this.#closed = true;
    this.#socket.close();
  }

  #open() {
    const protocols = ["omnigate.v1", ...(this.#token ? [this.#token] : [])];
    this.#socket = new WebSocket(this.#url(this.#cursor), protocols);
    this.#socket.onmessage = ({ data }) => this.#heard(JSON.parse(data));
    this.#socket.onclose = () => this.#ended();
  }

  #heard(said) {
    const asked = said.ref == null ? undefined : this.#waiting.get(said.ref);
    this.#waiting.delete(said.ref);
    if (said.type === "published") return asked?.done(said);
    if (said.type === "error" && asked) return asked.fail(new Refused(said.status, said));
    this.#cursor = said.cursor ?? this.#cursor;
    this.#wait = 100;
    this.#hear(said);
  }

  #ended() {
    for (const { fail } of this.#waiting.values()) fail(new Error("the socket ended before the verdict"));
    this.#waiting.clear();
    if (this.#closed) return;
    setTimeout(() => this.#open(), this.#wait);
    this.#wait = Math.min(this.#wait * 2, 5000);
  }
}
