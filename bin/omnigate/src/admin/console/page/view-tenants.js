// Who shares the node: what each gets of the slots, how fast, and what it is refused.
"use strict";

import { card, h, pill, show, table, tile } from "./dom.js";
import { areas, bar, logLines, spark, widthOf } from "./charts.js";
import { count, ms, percent, rate } from "./format.js";

export const title = "Tenants";
export const when = (snapshot) => Boolean(snapshot.gateway);

const COLOURS = ["c1", "c2", "c5", "c3", "c6"];
const CLASSES = { anon: "c3", authed: "c1", internal: "c2" };

export function render(main, { now }) {
  const { gateway } = now.snapshot;
  const width = widthOf(main.querySelector(".chart")?.parentElement, Math.min(main.clientWidth - 40, 560));
  const busiest = now.tenants.slice(0, COLOURS.length);
  show(main, slots(gateway, now), card("Tenants", { class: "wide" }, list(now), h("p", { class: "faint small" },
    "Share is slot-time: how much of all slots a tenant held in the last 10 s. The mark is what it is due while these tenants ask at once; who asks for less leaves the rest to others.")),
  card("Share of the slots", null, areas("Share of the slots", width, now.points, busiest.map((tenant, at) => (
    { name: tenant.name, kind: COLOURS[at], of: (point) => point.tenants[tenant.id]?.share ?? 0 })), { format: percent, most: 1 })),
  card("Refused per second", null, areas("Refused per second", width, now.points, busiest.map((tenant, at) => (
    { name: tenant.name, kind: COLOURS[at], of: (point) => point.tenants[tenant.id]?.refused ?? 0 })), { format: rate })),
  card("99 of 100 are faster", { class: "wide" }, logLines("Latency by tenant", widthOf(main.querySelector(".wide .chart")?.parentElement, main.clientWidth - 40), now.points, busiest.map((tenant, at) => (
    { name: tenant.name, kind: COLOURS[at], of: (point) => point.tenants[tenant.id]?.p99 })), { format: ms, least: 1, most: 10000 })));
}

function slots({ slots, known_tenants: known, served_for_others: others }, { point }) {
  const segments = slots.classes.map((of) => [of.inside / slots.slots, CLASSES[of.name] ?? "c6"]);
  return card("Slots", { class: "wide" },
    h("div", { class: "tiles" },
      tile("in use", `${point.inside} of ${slots.slots}`, slots.enabled ? "requests upstream" : "admission is off"),
      tile("waiting", `${slots.waiting} of ${slots.room}`, "tickets in the room", slots.waiting > 0 ? "warn" : ""),
      tile("tenants", count(known), "are known"),
      tile("others", count(others), "requests of those not listed")),
    bar(segments, null, `${point.inside} of ${slots.slots} slots are in use`),
    h("p", { class: "legend" }, slots.classes.map((of) => h("span", null, h("i", { class: `key ${CLASSES[of.name] ?? "c6"}` }), `${of.name}: ${of.inside} inside, ${of.waiting} wait, weight ${of.weight}`))));
}

function list({ tenants, points }) {
  const rows = tenants.map((tenant) => {
    const refusals = Object.entries(tenant.refusals).sort(([, a], [, b]) => b - a);
    const before = Object.entries(tenant.refused).filter(([reason]) => !tenant.refusals[reason]);
    const sparked = points.slice(-60).map((point) => point.tenants[tenant.id]?.rate ?? 0);
    return [
      h("b", { class: "tenant", title: tenant.name }, tenant.name),
      h("span", { class: "class" }, tenant.class, tenant.weight === 1 ? "" : h("span", { class: "faint" }, ` × ${tenant.weight}`)),
      h("span", { class: "share" }, bar([[tenant.share, "c1"]], tenant.due > 0 ? tenant.due : null, `${percent(tenant.share)} of the slots, due ${percent(tenant.due)}`), h("span", null, percent(tenant.share))),
      h("span", { class: "pair" }, spark(sparked, "c1", "requests of the last minute"), `${rate(tenant.rate)}/s`),
      ms(tenant.p50), ms(tenant.p99), count(tenant.waiting),
      h("span", { class: "pills" },
        refusals.map(([reason, n]) => pill(`${reason} ${rate(n)}/s`, "bad")),
        before.map(([reason, n]) => pill(`${reason} ${count(n)} before`, "note"))),
    ];
  });
  return table("Tenants", [["tenant"], ["class"], ["share"], ["served", "num"], ["median", "num"], ["p99", "num"], ["wait", "num"], ["refused", "grow"]], rows, "No recent requests.");
}
