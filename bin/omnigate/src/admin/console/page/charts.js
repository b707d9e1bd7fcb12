// Charts, drawn by hand in SVG at the size they are shown.
"use strict";

import { s, h } from "./dom.js";
import { KEPT } from "./history.js";

const HEIGHT = 150;
const LEFT = 52;
const BOTTOM = 18;
const TOP = 8;
const LEAST = 30;

/** A round number at or above `n`, for the top of an axis. */
function roundUp(n) {
  if (n <= 0) return 1;
  const size = 10 ** Math.floor(Math.log10(n));
  return [1, 2, 2.5, 5, 10].map((step) => step * size).find((step) => step >= n * 0.999);
}

function frame(width, seconds, ticks, label) {
  const [right, bottom] = [width - 6, HEIGHT - BOTTOM];
  const lines = ticks.map(([y, text]) => [
    s("line", { x1: LEFT, x2: right, y1: y, y2: y, class: "grid" }),
    s("text", { x: LEFT - 6, y: y + 4, class: "tick end" }, text),
  ]);
  const times = [[0, `${Math.round(seconds)} s ago`], [0.5, `${Math.round(seconds / 2)} s`], [1, "now"]].map(([part, text]) =>
    s("text", { x: LEFT + part * (right - LEFT), y: HEIGHT - 3, class: `tick ${part === 0 ? "" : part === 1 ? "end" : "middle"}` }, text));
  return [s("title", null, label), lines, times, s("line", { x1: LEFT, x2: right, y1: bottom, y2: bottom, class: "axis" })];
}

/** How many seconds are shown: what there is, a little at least, two minutes at most. */
const shownSeconds = (points) => (points.length ? Math.min(Math.max((points.at(-1).t - points[0].t) / 1000, LEAST), KEPT) : LEAST);

/** Where a point lies: the newest is at the right. */
function scaleX(width, points) {
  const [newest, seconds] = [points.at(-1)?.t ?? 0, shownSeconds(points)];
  return (point) => LEFT + (1 - (newest - point.t) / (seconds * 1000)) * (width - 6 - LEFT);
}

const path = (dots) => dots.map(([x, y], at) => `${at ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");

function legend(series) {
  return h("p", { class: "legend" }, series.map(({ name, kind }) => h("span", null, h("i", { class: `key ${kind}` }), name)));
}

function figure(label, width, series, drawn) {
  return h("figure", { class: "chart" },
    s("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, role: "img", "aria-label": label }, drawn),
    series.length > 1 ? h("figcaption", null, legend(series)) : null);
}

/** Amounts on top of each other. Series are `{ name, kind, of: point => number }`. */
export function areas(label, width, points, series, { format, most }) {
  const sums = points.map((point) => series.reduce((sum, { of }) => sum + of(point), 0));
  const top = most ?? roundUp(Math.max(...sums, 0.001));
  const y = (n) => TOP + (1 - Math.min(n / top, 1)) * (HEIGHT - BOTTOM - TOP);
  const x = scaleX(width, points);
  let below = points.map(() => 0);
  const drawn = series.map(({ of, kind, name }) => {
    const above = points.map((point, at) => below[at] + of(point));
    const line = points.map((point, at) => [x(point), y(above[at])]);
    const back = points.map((point, at) => [x(point), y(below[at])]).reverse();
    below = above;
    if (points.length < 2) return null;
    return s("g", { class: kind }, s("path", { class: "area", d: `${path([...line, ...back])}Z` }, s("title", null, name)),
      s("path", { class: "line", d: path(line) }));
  });
  const ticks = [0, 0.5, 1].map((part) => [y(top * part), format(top * part)]);
  // The lower on top: a line that adds nothing does not hide the one below it.
  return figure(label, width, series, [frame(width, shownSeconds(points), ticks, label), drawn.reverse()]);
}

/** Lines on a scale of powers of ten: durations differ by thousands. */
export function logLines(label, width, points, series, { format, least, most }) {
  const values = points.flatMap((point) => series.map(({ of }) => of(point))).filter((n) => n > 0);
  const low = Math.floor(Math.log10(Math.max(least, Math.min(...values, most))));
  const high = Math.max(Math.ceil(Math.log10(Math.max(...values, least * 10))), low + 1);
  const y = (n) => TOP + (1 - (Math.log10(Math.max(n, 10 ** low)) - low) / (high - low)) * (HEIGHT - BOTTOM - TOP);
  const x = scaleX(width, points);
  const drawn = series.map(({ of, kind, name }) => {
    const runs = [[]];
    for (const point of points) {
      const n = of(point);
      if (n === null || n === undefined) runs.push([]);
      else runs.at(-1).push([x(point), y(n)]);
    }
    return s("g", { class: kind }, runs.filter((run) => run.length > 1).map((run) => s("path", { class: "line", d: path(run) }, s("title", null, name))));
  });
  const steps = Array.from({ length: high - low + 1 }, (_, at) => low + at).filter((step, at, all) => all.length < 5 || (step - low) % 2 === 0);
  return figure(label, width, series, [frame(width, shownSeconds(points), steps.map((step) => [y(10 ** step), format(10 ** step)]), label), drawn]);
}

/** A few numbers in the room of a word. */
export function spark(values, kind, label) {
  const [width, height] = [84, 22];
  const top = Math.max(...values, 0.001);
  const dots = values.map((n, at) => [(at / Math.max(values.length - 1, 1)) * (width - 2) + 1, height - 2 - (n / top) * (height - 4)]);
  return s("svg", { class: `spark ${kind}`, viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label },
    dots.length > 1 ? s("path", { class: "line", d: path(dots) }) : null);
}

/** A bar that is full to `part`, with a mark at `mark` if there is one. Segments are `[part, kind]`. */
export function bar(segments, mark, label) {
  return h("span", { class: "bar", role: "img", "aria-label": label, title: label },
    segments.map(([part, kind]) => h("i", { class: kind, style: { width: `${(Math.min(Math.max(part, 0), 1) * 100).toFixed(2)}%` } })),
    mark === null || mark === undefined ? null : h("b", { style: { left: `${(Math.min(mark, 1) * 100).toFixed(2)}%` } }));
}

/** The inner width of an element, for drawings that are not to be scaled. */
export const widthOf = (element, fallback) => Math.max(Math.floor(element?.clientWidth || fallback), 240);
