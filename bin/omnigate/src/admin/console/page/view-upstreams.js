// Where requests go: the servers, their breakers, how they fail.
"use strict";

import { card, h, pill, s, show, table, tile } from "./dom.js";
import { bar } from "./charts.js";
import { count, ms, rate } from "./format.js";
import { percentile } from "./history.js";

export const title = "Upstreams";
export const when = (snapshot) => Boolean(snapshot.gateway);

const STATES = { usable: "good", open: "bad", unhealthy: "bad", ejected: "warn" };
const BREAKERS = { closed: "good", open: "bad", half_open: "warn" };

export function render(main, { now, old }) {
  const { upstreams } = now.snapshot.gateway;
  show(main, upstreams.length ? upstreams.map((upstream) => one(upstream, now, old)) : card("Upstreams", { class: "wide" }, h("p", { class: "empty" }, "No upstream is configured.")));
}

function one(upstream, now, old) {
  const before = old?.snapshot.gateway?.upstreams.find(({ name }) => name === upstream.name);
  const seconds = old ? (now.snapshot.t - old.snapshot.t) / 1000 : 0;
  const lately = upstream.latency.map((n, at) => n - (before?.latency[at] ?? n));
  const asked = lately.reduce((sum, n) => sum + n, 0);
  const usable = upstream.servers.filter(({ state }) => state === "usable").length;
  const kinds = Object.entries(upstream.failures);
  const failing = kinds.reduce((sum, [kind, n]) => sum + (seconds ? (n - (before?.failures[kind] ?? n)) / seconds : 0), 0);
  return card(upstream.name, { class: "wide upstream", "data-key": upstream.name },
    h("div", { class: "tiles" },
      tile("servers", `${usable} of ${upstream.servers.length}`, "are used", usable === 0 ? "bad" : usable < upstream.servers.length ? "warn" : ""),
      tile("asked", `${rate(seconds ? asked / seconds : 0)}/s`, "retries included"),
      tile("median", ms(percentile(lately, now.boundsMs, 0.5)), "to its head"),
      tile("p99", ms(percentile(lately, now.boundsMs, 0.99)), "to its head"),
      tile("failed tries", `${rate(failing)}/s`, kinds.filter(([, n]) => n > 0).map(([kind, n]) => `${kind} ${count(n)}`).join(", ") || "none so far", failing > 0 ? "bad" : "")),
    table(`Servers of ${upstream.name}`, [["server"], ["state"], ["breaker"], ["in use", "grow"], ["open", "num"], ["wait", "num"], ["weight", "num"]],
      upstream.servers.map((server) => [h("code", null, server.endpoint), pill(server.state, STATES[server.state]), breaker(server.breaker),
        h("span", { class: "share" }, bar([[server.busy / Math.max(server.connections, 1), "c1"]], null, `${server.busy} of ${server.connections} connections are in use`), h("span", null, count(server.busy))),
        count(server.connections), count(server.waiting), count(server.weight)])),
    errors(upstream.servers));
}

/** Why requests to each server failed last. */
function errors(servers) {
  const failed = servers.filter(({ last_error }) => last_error);
  return failed.length ? h("ul", { class: "small problem" }, failed.map(({ endpoint, last_error: { cause, ago_ms, count: times } }) =>
    h("li", null, h("code", null, endpoint), ` failed ${ms(ago_ms)} ago: ${cause} (${count(times)} in all)`))) : null;
}

/** A breaker as one draws it: the arm lies on its contact, or it does not. */
function breaker(state) {
  const tip = { closed: [30, 12], half_open: [28, 6], open: [24, 2] }[state] ?? [30, 12];
  return h("span", { class: "pair breaker" }, s("svg", { viewBox: "0 0 42 16", width: 42, height: 16, class: BREAKERS[state], role: "img", "aria-label": state },
    s("path", { class: "line", d: `M1 12H12M30 12H41M12 12L${tip[0]} ${tip[1]}` }), s("circle", { cx: 12, cy: 12, r: 2.4 }), s("circle", { cx: 30, cy: 12, r: 2.4 })), state.replace("_", " "));
}
