// The node at a glance: is it ready, what does it do, what does it refuse.
"use strict";

import { card, h, pill, show, table, tile } from "./dom.js";
import { areas, bar, logLines, widthOf } from "./charts.js";
import { count, ms, percent, rate } from "./format.js";

export const title = "Overview";

const EFFECTS = { down: "bad", service_down: "bad", shed_writes: "warn", report: "note" };
const MEANS = {
  ready: "The node accepts requests.",
  degraded: "Reads are served; writes are refused while this condition is active.",
  down: "Load balancers should not send requests to this node.",
  draining: "The node is stopping: requests in progress are finished, and no new ones are accepted.",
};

export function render(main, { now }) {
  const wide = widthOf(main.querySelector(".chart")?.parentElement, Math.min(main.clientWidth - 40, 560));
  show(main, readiness(now.snapshot.ready), tiles(now), traffic(now, wide), latency(now, wide), refusals(now), services(now), routes(now));
}

export function statusKind(status) {
  return { ready: "good", degraded: "warn", draining: "warn", down: "bad" }[status] ?? "note";
}

function readiness({ status, conditions }) {
  const line = ({ service, name, effect, reason }) =>
    h("li", null, pill(effect.replace("_", " "), EFFECTS[effect]), h("div", null, h("b", null, `${service} · ${name}`), reason ? h("pre", { class: "reason", tabindex: "0" }, reason) : null));
  return card("Readiness", { class: `ready wide ${statusKind(status)}` },
    h("p", { class: "verdict" }, h("b", { id: "verdict" }, status), ` ${MEANS[status] ?? ""}`),
    conditions.length ? h("ul", { class: "conditions" }, conditions.map(line)) : h("p", { class: "empty" }, "No active conditions."));
}

function tiles({ snapshot, lately, point, services }) {
  const slots = snapshot.gateway?.slots;
  const connections = Object.entries(services).filter(([name]) => name !== "admin").reduce((sum, [, { children }]) => sum + (children.connection ?? 0), 0);
  return h("div", { class: "tiles wide" },
    tile("requests", `${rate(lately.rate)}/s`, "answered or refused"),
    tile("refused", `${rate(point.refused)}/s`, "this second", point.refused > 0 ? "warn" : ""),
    tile("median", ms(lately.p50), "of what is served"),
    tile("99 of 100", ms(lately.p99), "are faster than"),
    slots ? tile("slots", `${point.inside} of ${slots.slots}`, `${slots.waiting} wait`, slots.waiting > 0 ? "warn" : "") : null,
    tile("connections", count(connections), `on ${snapshot.cores.length} core${snapshot.cores.length === 1 ? "" : "s"}`));
}

function traffic({ points }, width) {
  const series = [
    { name: "answered", kind: "c1", of: (point) => point.answered },
    { name: "refused", kind: "c4", of: (point) => point.refused },
    { name: "5xx", kind: "c3", of: (point) => point.status[4] ?? 0 },
  ];
  return card("Requests per second", null, areas("Requests per second", width, points, series, { format: rate }));
}

function latency({ points }, width) {
  const series = [
    { name: "median", kind: "c1", of: (point) => point.p50 },
    { name: "99 of 100 are faster", kind: "c5", of: (point) => point.p99 },
  ];
  return card("Latency of served requests", null, logLines("Latency", width, points, series, { format: ms, least: 0.1, most: 10000 }));
}

function refusals({ snapshot, refused }) {
  const totals = {};
  for (const [name, service] of Object.entries(snapshot.services)) {
    if (name === "admin") continue;
    for (const [reason, n] of Object.entries(service.rejected)) totals[reason] = (totals[reason] ?? 0) + n;
  }
  const rows = Object.entries(totals).sort(([one, a], [two, b]) => (refused[two] ?? 0) - (refused[one] ?? 0) || b - a);
  const most = Math.max(...rows.map(([reason]) => refused[reason] ?? 0), 0.001);
  return card("Refusals by reason", null, table("Refusals by reason", [["reason"], ["now", "num"], ["", "grow"], ["since the start", "num"]],
    rows.map(([reason, n]) => [h("code", null, reason), `${rate(refused[reason] ?? 0)}/s`, bar([[(refused[reason] ?? 0) / most, "c4"]], null, `${reason}: ${rate(refused[reason] ?? 0)} a second`), count(n)]),
    "Nothing has been refused."));
}

function services({ services }) {
  const rows = Object.entries(services).map(([name, service]) => {
    const running = service.tasks.filter(([, state]) => state === "running").length;
    const restarts = service.tasks.reduce((sum, [, , n]) => sum + n, 0);
    const drops = Object.values(service.dropped).reduce((sum, n) => sum + n, 0);
    return [h("b", null, name), pill(service.status, statusKind(service.status)), `${rate(service.rate)}/s`, `${rate(service.refused_now)}/s`,
      `${running} of ${service.tasks.length}`, count(restarts), `${rate(drops)}/s`];
  });
  return card("Services", null, table("Services", [["service"], ["state"], ["requests", "num"], ["refused", "num"], ["tasks", "num"], ["restarts", "num"], ["dropped", "num"]], rows));
}

function routes({ routes, window }) {
  const rows = routes.filter((route) => route.service !== "admin").slice(0, 12).map((route) => {
    const failed = route.status[4] / Math.max(route.status.reduce((sum, n) => sum + n, 0), 1);
    return [h("span", { class: "faint" }, route.service), h("code", null, route.route), `${rate(route.rate)}/s`, ms(route.p50), ms(route.p99), count(route.inflight), percent(failed)];
  });
  return card("Routes", { class: "wide" }, table("Routes", [["service"], ["route", "grow"], ["requests", "num"], ["median", "num"], ["p99", "num"], ["in flight", "num"], ["5xx ever", "num"]], rows, "No requests yet."),
    h("p", { class: "faint small" }, `Rates and percentiles are of the last ${Math.max(Math.round(window), 1)} s.`));
}
