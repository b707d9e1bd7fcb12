// What the node says, as it says it: a stream of snapshots, and single answers. With the token, if there is one.
"use strict";

const KEPT_AS = "omnigate.token";
const PATIENCE_MS = 6000;

const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

function headers() {
  const token = sessionStorage.getItem(KEPT_AS);
  return token ? { Authorization: `Bearer ${token}` } : {};
}

/** Keeps the token for this tab. */
export const keepToken = (token) => sessionStorage.setItem(KEPT_AS, token);

/** Asks for JSON; `null` if there is no such thing. The error has the answer's `status`. */
export async function ask(path) {
  const answer = await fetch(path, { headers: { ...headers(), Accept: "application/json" }, cache: "no-store" });
  if (answer.status === 404) return null;
  if (!answer.ok) throw Object.assign(new Error(await reason(answer)), { status: answer.status });
  return answer.json();
}

/** Asks for a file with one line of JSON each; the first `most` of them. */
export async function askLines(path, most) {
  const answer = await fetch(path, { headers: headers(), cache: "no-store" });
  if (!answer.ok) return [];
  const lines = (await answer.text()).split("\n", most + 1).filter(Boolean);
  return lines.slice(0, most).map((line) => JSON.parse(line));
}

async function reason(answer) {
  const text = await answer.text();
  try {
    const { detail, title } = JSON.parse(text);
    return detail ?? title ?? text;
  } catch {
    return text || `${answer.status}`;
  }
}

/** Follows the node for good. `seen` gets each snapshot, `lost` why there is none, `asked` waits for a token. */
export async function follow({ seen, lost, asked }) {
  for (let failures = 0; ; ) {
    try {
      for await (const snapshot of snapshots()) {
        failures = 0;
        seen(snapshot);
      }
      lost("The node closed the stream.");
    } catch (error) {
      if (error.status === 401) {
        await asked();
        continue;
      }
      lost(error.status ? error.message : "The node does not answer.");
    }
    failures = Math.min(failures + 1, 6);
    await sleep(Math.min(500 * 2 ** failures, 10000));
  }
}

async function* snapshots() {
  const silence = new AbortController();
  let timer = setTimeout(() => silence.abort(), PATIENCE_MS);
  try {
    const answer = await fetch("/console/live", { headers: headers(), cache: "no-store", signal: silence.signal });
    if (!answer.ok) throw Object.assign(new Error(await reason(answer)), { status: answer.status });
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      clearTimeout(timer);
      timer = setTimeout(() => silence.abort(), PATIENCE_MS);
      const messages = (text + value).split("\n\n");
      text = messages.pop();
      for (const message of messages) if (message.startsWith("data: ")) yield JSON.parse(message.slice(6));
    }
  } finally {
    clearTimeout(timer);
  }
}
