// The console: follows the node, shows one view at a time.
"use strict";

import { h, pill, show } from "./dom.js";
import { ask, follow, keepToken } from "./feed.js";
import { span } from "./format.js";
import { History } from "./history.js";
import * as overview from "./view-overview.js";
import * as topology from "./view-topology.js";
import * as tenants from "./view-tenants.js";
import * as upstreams from "./view-upstreams.js";
import * as edge from "./view-edge.js";
import * as overlay from "./view-overlay.js";
import * as rewards from "./view-rewards.js";
import * as config from "./view-config.js";

const VIEWS = { overview, topology, tenants, upstreams, edge, overlay, rewards, config };
const THEMES = ["system", "light", "dark"];

const element = (id) => document.getElementById(id);
const [main, nav, state] = ["main", "nav", "state"].map(element);
const history = new History();
/** What was asked for, by view and name; when, so that it is asked again. */
const answers = {};
const askedAt = {};
let now = null;
let lostBecause = null;
let current = null;

const there = () => Object.entries(VIEWS).filter(([, view]) => !view.when || (now && view.when(now.snapshot)));

function render() {
  state.replaceChildren(...status());
  if (!now) return;
  element("node").textContent = now.snapshot.node;
  document.title = `${now.snapshot.node} – Omnigate`;
  const names = there().map(([name]) => name);
  const wanted = location.hash.slice(1);
  const name = names.includes(wanted) ? wanted : "overview";
  const opened = name !== current;
  if (opened) open(name);
  show(nav, h("ul", null, names.map((one, at) => h("li", null,
    h("a", { href: `#${one}`, "aria-current": one === name ? "page" : null, "data-view": one }, VIEWS[one].title, h("kbd", { "aria-hidden": "true" }, String(at + 1)))))));
  if (opened) nav.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
  fetchFor(name);
  VIEWS[name].render(main, { now, old: oldest(), answers: answers[name] ?? {} });
}

/** The oldest snapshot that rates of views are taken from. */
const oldest = () => (history.raw.length > 1 ? { snapshot: history.raw[0] } : null);

function open(name) {
  const moved = current !== null;
  current = name;
  main.replaceChildren();
  main.dataset.view = name;
  main.setAttribute("aria-label", VIEWS[name].title);
  if (VIEWS[name].fresh) delete askedAt[name];
  if (moved) main.focus({ preventScroll: true });
  scrollTo(0, 0);
}

/** Asks for what a view needs: once, or as often as it says. */
async function fetchFor(name) {
  const { needs, every } = VIEWS[name];
  const due = askedAt[name] === undefined || (every && Date.now() - askedAt[name] >= every * 1000);
  if (!needs || !due) return;
  askedAt[name] = Date.now();
  try {
    const found = await Promise.all(Object.entries(needs).map(async ([what, path]) => [what, await ask(path)]));
    answers[name] = Object.fromEntries(found);
    if (name === current) VIEWS[name].render(main, { now, old: oldest(), answers: answers[name] });
  } catch {
    // The stream says what is wrong with the node; this is asked again with the next snapshot.
    delete askedAt[name];
  }
}

function status() {
  if (!now) return [pill(lostBecause ?? "connecting …", lostBecause ? "bad" : "note")];
  const { ready, up_s: up, version } = now.snapshot;
  const about = h("span", { class: "faint about" }, `${version}, up ${span(up)}`);
  if (lostBecause) return [pill("lost", "bad"), h("span", { class: "why" }, lostBecause)];
  return [pill(ready.status, overview.statusKind(ready.status)), about];
}

function theme(chosen) {
  const next = THEMES.includes(chosen) ? chosen : "system";
  document.documentElement.dataset.theme = next;
  localStorage.setItem("omnigate.theme", next);
  element("theme").setAttribute("aria-label", `Colours: ${next === "system" ? "as the system" : next}`);
  element("theme").textContent = { system: "◐", light: "○", dark: "●" }[next];
}

const nextTheme = () => theme(THEMES[(THEMES.indexOf(document.documentElement.dataset.theme) + 1) % THEMES.length]);

function keys() {
  const dialog = element("keys");
  if (dialog.open) return dialog.close();
  const rows = [...there().map(([, view], at) => [String(at + 1), view.title]), ["t", "colours: system, light, dark"], ["?", "this list"], ["Esc", "close it"]];
  show(dialog, h("h2", null, "Keys"), h("dl", { class: "facts" }, rows.flatMap(([key, what]) => [h("dt", null, h("kbd", null, key)), h("dd", null, what)])),
    h("button", { type: "button", onclick: () => dialog.close() }, "Close"));
  dialog.showModal();
  return undefined;
}

function pressed(event) {
  const typing = event.target instanceof HTMLInputElement && event.target.type !== "checkbox";
  if (typing || event.ctrlKey || event.metaKey || event.altKey || element("ask").open) return;
  const chosen = there()[Number(event.key) - 1];
  if (chosen) location.hash = chosen[0];
  else if (event.key === "t") nextTheme();
  else if (event.key === "?") keys();
}

/** Waits until somebody has given the token. */
function askToken() {
  const dialog = element("ask");
  dialog.showModal();
  return new Promise((done) => {
    dialog.onclose = () => {
      keepToken(element("token").value);
      element("token").value = "";
      done();
    };
  });
}

theme(localStorage.getItem("omnigate.theme"));
element("theme").onclick = nextTheme;
element("help").onclick = keys;
addEventListener("keydown", pressed);
addEventListener("hashchange", render);
addEventListener("resize", render);
document.querySelector(".skip").onclick = (event) => {
  event.preventDefault();
  main.focus();
};
render();
follow({
  seen(snapshot) {
    lostBecause = null;
    now = history.add(snapshot);
    render();
  },
  lost(why) {
    lostBecause = why;
    render();
  },
  asked: askToken,
});
