// The edge: how much it answers from what it has, and its packs on the map.
"use strict";

import { card, h, pill, s, show, table, tile } from "./dom.js";
import { areas, bar, widthOf } from "./charts.js";
import { bytes, count, percent, rate, shorten } from "./format.js";
import { LAND } from "./world.js";

export const title = "Edge";
export const when = (snapshot) => Boolean(snapshot.edge);

const STATES = { served: "good", mounting: "warn", refused: "bad" };
const COLOURS = ["c1", "c5", "c2", "c3", "c6"];

export function render(main, { now }) {
  const { edge } = now.snapshot;
  const width = widthOf(main.querySelector(".chart")?.parentElement, Math.min(main.clientWidth - 40, 560));
  show(main, tiles(edge, now), card("Hits and misses per second", null, areas("Hits and misses per second", width, now.points, [
    { name: "here", kind: "c2", of: (point) => point.hits }, { name: "not here", kind: "c3", of: (point) => point.misses }], { format: rate })),
  card("Packs on the map", null, map(edge.packs, width)),
  card("Packs", { class: "wide" }, packs(edge)));
}

function tiles(edge, { point }) {
  const asked = edge.hits + edge.misses;
  return h("div", { class: "tiles wide" },
    tile("hits", `${rate(point.hits)}/s`, `${count(edge.hits)} so far`),
    tile("misses", `${rate(point.misses)}/s`, `${count(edge.misses)} so far`),
    tile("from here", asked ? percent(edge.hits / asked) : "–", edge.live ? "origins are asked for the rest" : "offline: nobody else is asked"),
    h("div", { class: "tile" }, h("span", { class: "name" }, "RAM"), h("b", null, bytes(edge.ram_bytes)),
      bar([[edge.ram_bytes / Math.max(edge.ram_limit, 1), "c1"]], null, `${bytes(edge.ram_bytes)} of ${bytes(edge.ram_limit)}`), h("span", { class: "note" }, `of ${bytes(edge.ram_limit)}, entries: ${count(edge.ram_entries)}`)),
    tile("damages", count(edge.quarantined), "set aside, never served", edge.quarantined > 0 ? "bad" : ""),
    tile("inside", count(edge.inside), "wait for a disk, or are sent"));
}

/** A world with a box for each pack; straight degrees, for the poles are not what is looked at. */
function map(packs, width) {
  const height = Math.round(width * 0.46);
  const [x, y] = [(lon) => ((lon + 180) / 360) * width, (lat) => ((85 - lat) / 170) * height];
  const coast = (points) => points.reduce((d, n, at) => (at % 2 ? `${d} ${y(n).toFixed(1)}` : `${d}${at ? "L" : "M"}${x(n).toFixed(1)}`), "") + "Z";
  const lines = [-120, -60, 0, 60, 120].map((lon) => s("line", { class: "grid", x1: x(lon), x2: x(lon), y1: 0, y2: height }))
    .concat([-60, -30, 0, 30, 60].map((lat) => s("line", { class: "grid", x1: 0, x2: width, y1: y(lat), y2: y(lat) })));
  const shown = packs.filter((pack) => pack.bounds);
  const boxes = shown.map((pack, at) => {
    const [west, south, east, north] = pack.bounds;
    const [bx, by] = [x(west), y(Math.min(north, 85))];
    const [bw, bh] = [Math.max(x(east) - bx, 6), Math.max(y(Math.max(south, -85)) - by, 6)];
    const isAll = bw * bh > 0.7 * width * height;
    return s("g", { class: `pack ${isAll ? "all" : ""} ${COLOURS[at % COLOURS.length]}` }, s("rect", { x: bx + 1, y: by + 1, width: Math.max(bw - 2, 4), height: Math.max(bh - 2, 4), rx: 2 }),
      s("title", null, `${pack.name}: ${pack.bounds.map((n) => n.toFixed(1)).join(", ")}`));
  });
  return h("figure", { class: "chart map" }, s("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": "The world, and the bounds of each pack" },
    s("rect", { class: "sea", x: 0, y: 0, width, height, rx: 6 }), lines, LAND.map((points) => s("path", { class: "land", d: coast(points) })), boxes),
  h("figcaption", null, h("p", { class: "legend" }, shown.length ? shown.map((pack, at) => h("span", null, h("i", { class: `key ${COLOURS[at % COLOURS.length]}` }), pack.name)) : "No pack is mounted.")));
}

function packs(edge) {
  const rows = edge.packs.map((pack) => {
    const url = edge.maps.find((url) => url.endsWith(`/${pack.name}`));
    return [url ? h("a", { href: url, rel: "noreferrer", target: "_blank" }, pack.name) : h("b", null, pack.name),
      pill(pack.state === "mounting" ? `mounting, ${pack.percent} %` : pack.state, STATES[pack.state]), pack.tiles ?? "–",
      pack.bounds ? `${pack.min_zoom}–${pack.max_zoom}` : "–", pack.tile_count === undefined ? "–" : count(pack.tile_count), pack.bytes === undefined ? "–" : bytes(pack.bytes),
      pack.problem ? h("span", { class: "problem" }, pack.problem) : h("code", { title: pack.id ?? "" }, pack.id ? shorten(pack.id, 22) : "–")];
  });
  return table("Packs", [["pack"], ["state"], ["kind"], ["zoom", "num"], ["tiles", "num"], ["size", "num"], ["hash, or what is wrong", "grow"]], rows, "No pack is configured: edge.packs lists them.");
}
