// What the node is made of, drawn from its declarations, with what moves in it now.
"use strict";

import { card, h, pill, s, show, table } from "./dom.js";
import { widthOf } from "./charts.js";
import { count, rate, shorten } from "./format.js";

export const title = "Topology";
/** Asked for once: declarations do not change while a node runs. */
export const needs = { topology: "/topology" };

const ROW = 58;
const BOX = 46;

export function render(main, { now, answers }) {
  const { services } = answers.topology ?? { services: [] };
  const width = widthOf(main.querySelector(".drawing"), Math.min(main.clientWidth - 34, 1080));
  show(main, cores(now.snapshot), services.map((service) => serviceCard(service, now.services[service.service], width)));
}

function cores({ cores, phase }) {
  const most = Math.max(...cores, 1);
  return card("Cores", { class: "wide" }, h("p", { class: "faint small" }, `Phase: ${phase}. Connections are placed on the core with the fewest.`),
    h("div", { class: "cores" }, cores.map((n, core) =>
      h("div", { class: "core" }, h("span", { class: "name" }, `core ${core}`), h("b", null, count(n)),
        h("span", { class: "bar" }, h("i", { class: "c1", style: { width: `${(n / most) * 100}%` } }))))));
}

function serviceCard(declared, live, width) {
  if (!live) return null;
  const tasks = declared.tasks.map((task) => {
    const instances = live.tasks.filter(([name]) => name === task.name || name.startsWith(`${task.name}#`));
    const restarts = instances.reduce((sum, [, , n]) => sum + n, 0);
    const running = instances.filter(([, state]) => state === "running").length;
    const state = instances.length === 0 ? "not started" : running === instances.length ? "running" : instances.find(([, state]) => state !== "running")[1];
    const kind = state === "running" ? "good" : state === "not started" || state === "finished" || state === "done" ? "note" : "warn";
    return [h("b", null, task.name), pill(instances.length > 1 ? `${running} × ${state}` : state, kind), count(restarts), task.plane, task.stop, h("span", { class: "faint" }, task.doc)];
  });
  const children = declared.children.map((child) =>
    [h("b", null, child.kind), count(live.children[child.kind] ?? 0), child.bound, child.plane, h("span", { class: "faint" }, child.doc)]);
  return card(declared.service, { class: "wide service", "data-service": declared.service },
    h("p", { class: "faint" }, declared.purpose),
    h("div", { class: "drawing" }, declared.queues.length ? draw(declared, live, width) : null),
    h("details", { "data-keep": "" }, h("summary", null, `${declared.tasks.length} tasks, ${declared.children.length} kinds of children, ${declared.queues.length} queues, ${declared.timeouts.length} timeouts`),
      h("h3", null, "Tasks"), table(`Tasks of ${declared.service}`, [["task"], ["state"], ["restarts", "num"], ["plane"], ["stops at"], ["what it does", "grow"]], tasks),
      h("h3", null, "Children"), table(`Children of ${declared.service}`, [["kind"], ["alive", "num"], ["bound"], ["plane"], ["what it is", "grow"]], children, "None."),
      h("h3", null, "Queues"), table(`Queues of ${declared.service}`, [["queue"], ["policy"], ["capacity", "num"], ["when full"], ["what waits", "grow"]],
        declared.queues.map((queue) => [h("b", null, queue.name), queue.policy, count(queue.capacity), queue.when_full, h("span", { class: "faint" }, queue.doc)]), "None."),
      h("h3", null, "Promises"), h("ul", { class: "plain" }, declared.invariants.map((line) => h("li", null, line)))));
}

/** Who sends, through which queue, to whom. Ends of the same name are one box, in the middle of what it is tied to. */
function draw({ service, queues }, live, width) {
  const narrow = width < 560;
  const [end, gap] = narrow ? [Math.floor(width * 0.26), Math.floor(width * 0.06)] : [Math.min(190, Math.floor(width * 0.22)), Math.floor(width * 0.09)];
  const middle = width - 2 * (end + gap);
  const height = queues.length * ROW + 6;
  const y = (at) => 3 + at * ROW + (ROW - BOX) / 2;
  const [left, right] = [ends(queues, "from"), ends(queues, "to")];
  const curve = (x1, y1, x2, y2, kind) => s("path", { class: `edge ${kind}`, "marker-end": `url(#arrow-${service})`, d: `M${x1} ${y1}C${(x1 + x2) / 2} ${y1} ${(x1 + x2) / 2} ${y2} ${x2 - 4} ${y2}` });
  const box = (name, x, middleY) => s("g", { class: "end" }, s("rect", { x, y: middleY - 15, width: end, height: 30, rx: 6 }),
    s("text", { x: x + end / 2, y: middleY + 4, class: "middle" }, shorten(name, Math.floor(end / 7.2))), s("title", null, name));
  const edges = queues.map((queue, at) => {
    const [qy, kind] = [y(at) + BOX / 2, queue.policy === "Broadcast" || queue.policy === "Watch" ? "loose" : ""];
    return [curve(end, left.get(queue.from), end + gap, qy, kind), curve(end + gap + middle, qy, width - end, right.get(queue.to), kind)];
  });
  return s("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": `Queues of ${service}` },
    s("defs", null, s("marker", { id: `arrow-${service}`, viewBox: "0 0 8 8", refX: 6, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" }, s("path", { d: "M0 0L8 4L0 8z", class: "arrow" }))),
    edges, [...left].map(([name, at]) => box(name, 0, at)), [...right].map(([name, at]) => box(name, width - end, at)),
    queues.map((queue, at) => queueBox(queue, live, end + gap, y(at), middle)));
}

/** Where each end of that name goes: the mean of its queues' places, and never on top of another. */
function ends(queues, which) {
  const rows = new Map();
  queues.forEach((queue, at) => rows.set(queue[which], [...(rows.get(queue[which]) ?? []), at]));
  const placed = [...rows].map(([name, at]) => [name, 3 + ((at.reduce((sum, n) => sum + n, 0) / at.length) + 0.5) * ROW]).sort(([, a], [, b]) => a - b);
  placed.forEach((one, at) => {
    if (at > 0) one[1] = Math.max(one[1], placed[at - 1][1] + 36);
  });
  // What was pushed below the last row goes back up.
  let lowest = queues.length * ROW - 14;
  for (const one of placed.toReversed()) {
    one[1] = Math.min(one[1], lowest);
    lowest = one[1] - 36;
  }
  return new Map(placed);
}

function queueBox(queue, live, x, y, width) {
  const [depth, drops] = live.queues[queue.name] ?? [null, null];
  const perSecond = live.dropped[queue.name] ?? 0;
  const full = depth === null ? 0 : Math.min(depth / queue.capacity, 1);
  const kind = perSecond > 0 ? "dropping" : full > 0.5 ? "filling" : "";
  const dropped = drops ? `${count(drops)} dropped${perSecond > 0 ? `, ${rate(perSecond)}/s` : ""}` : "";
  const room = Math.floor((width - 20) / 6.6);
  const depthText = depth === null ? (width < 200 ? "" : queue.policy) : `${count(depth)} / ${count(queue.capacity)}`;
  const second = shorten(dropped || (width < 200 ? queue.policy : `${queue.policy}: ${queue.when_full}`), room);
  return s("g", { class: `queue ${kind}`, "data-queue": queue.name },
    s("rect", { x, y, width, height: BOX, rx: 6, class: "frame" }),
    s("rect", { x, y: y + BOX - 5, width: Math.max(full * width, 0), height: 5, rx: 2, class: "fill" }),
    s("text", { x: x + 10, y: y + 17, class: "strong" }, shorten(queue.name, Math.max(room - depthText.length - 1, 6))),
    s("text", { x: x + width - 10, y: y + 17, class: "end" }, depthText),
    s("text", { x: x + 10, y: y + 34, class: dropped ? "drops" : "faint" }, second),
    s("title", null, `${queue.name}: ${queue.doc}`));
}
