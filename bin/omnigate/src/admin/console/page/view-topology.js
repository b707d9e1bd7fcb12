// What the node is made of, drawn from its declarations, with what moves in it now.
"use strict";

import { card, h, pill, s, show, table } from "./dom.js";
import { widthOf } from "./charts.js";
import { count, rate, shorten } from "./format.js";

export const title = "Topology";
/** Asked for once: declarations do not change while a node runs. */
export const needs = { topology: "/topology" };

/** The heights of a queue and of its row: on a phone its numbers go below its name. */
const WIDE = { row: 58, box: 46 };
const NARROW = { row: 76, box: 62 };

export function render(main, { now, answers }) {
  const { services } = answers.topology ?? { services: [] };
  const width = widthOf(main.querySelector(".drawing"), Math.min(main.clientWidth - 34, 1080));
  show(main, cores(now.snapshot), services.map((service) => serviceCard(configured(service, now.snapshot), now.services[service.service], width)));
}

/** The room of the gateway may be configured to hold less, or more, than is declared. */
function configured(declared, { gateway }) {
  if (declared.service !== "gateway" || !gateway) return declared;
  const queues = declared.queues.map((queue) => (["work", "sched"].includes(queue.name) ? { ...queue, capacity: gateway.slots.room } : queue));
  return { ...declared, queues };
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
    h("details", { "data-keep": "" }, h("summary", null, `Tasks ${declared.tasks.length}, kinds of children ${declared.children.length}, queues ${declared.queues.length}, promises ${declared.invariants.length}`),
      h("h3", null, "Tasks"), table(`Tasks of ${declared.service}`, [["task"], ["state"], ["restarts", "num"], ["plane"], ["stops at"], ["what it does", "grow"]], tasks),
      h("h3", null, "Children"), table(`Children of ${declared.service}`, [["kind"], ["alive", "num"], ["bound"], ["plane"], ["what it is", "grow"]], children, "None."),
      h("h3", null, "Queues"), table(`Queues of ${declared.service}`, [["queue"], ["policy"], ["capacity", "num"], ["when full"], ["what waits", "grow"]],
        declared.queues.map((queue) => [h("b", null, queue.name), queue.policy, count(queue.capacity), queue.when_full, h("span", { class: "faint" }, queue.doc)]), "None."),
      h("h3", null, "Promises"), h("ul", { class: "plain" }, declared.invariants.map((line) => h("li", null, line)))));
}

/** Who sends, through which queue, to whom. Ends of the same name are one box, in the middle of what it is tied to. */
function draw({ service, queues }, live, width) {
  const narrow = width < 560;
  const { row, box: tall } = narrow ? NARROW : WIDE;
  const [end, gap] = narrow ? [Math.floor(width * 0.26), Math.floor(width * 0.06)] : [Math.min(190, Math.floor(width * 0.22)), Math.floor(width * 0.09)];
  const middle = width - 2 * (end + gap);
  const height = queues.length * row + 6;
  const y = (at) => 3 + at * row + (row - tall) / 2;
  const [left, right] = [ends(queues, "from", row), ends(queues, "to", row)];
  const curve = (x1, y1, x2, y2, kind) => s("path", { class: `edge ${kind}`, "marker-end": `url(#arrow-${service})`, d: `M${x1} ${y1}C${(x1 + x2) / 2} ${y1} ${(x1 + x2) / 2} ${y2} ${x2 - 4} ${y2}` });
  const box = (name, x, middleY) => {
    const lines = inLines(name, Math.floor((end - 10) / 7.3));
    const high = lines.length > 1 ? 38 : 30;
    return s("g", { class: "end" }, s("rect", { x, y: middleY - high / 2, width: end, height: high, rx: 6 }),
      lines.map((line, at) => s("text", { x: x + end / 2, y: middleY + 4 + (at - (lines.length - 1) / 2) * 15, class: "middle" }, line)), s("title", null, name));
  };
  const edges = queues.map((queue, at) => {
    const [qy, kind] = [y(at) + tall / 2, queue.policy === "Broadcast" || queue.policy === "Watch" ? "loose" : ""];
    return [curve(end, left.get(queue.from), end + gap, qy, kind), curve(end + gap + middle, qy, width - end, right.get(queue.to), kind)];
  });
  return s("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": `Queues of ${service}` },
    s("defs", null, s("marker", { id: `arrow-${service}`, viewBox: "0 0 8 8", refX: 6, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" }, s("path", { d: "M0 0L8 4L0 8z", class: "arrow" }))),
    edges, [...left].map(([name, at]) => box(name, 0, at)), [...right].map(([name, at]) => box(name, width - end, at)),
    queues.map((queue, at) => queueBox(queue, live, { x: end + gap, y: y(at), width: middle, height: tall }, narrow)));
}

/** A name in one line or two. */
function inLines(name, most) {
  if (name.length <= most) return [name];
  const words = name.split(" ");
  let first = "";
  while (words.length > 1 && `${first} ${words[0]}`.trim().length <= most) first = `${first} ${words.shift()}`.trim();
  return first ? [first, shorten(words.join(" "), most)] : [shorten(name, most)];
}

/** Where each end of that name goes: the mean of its queues' places, and never on top of another. */
function ends(queues, which, row) {
  const rows = new Map();
  queues.forEach((queue, at) => rows.set(queue[which], [...(rows.get(queue[which]) ?? []), at]));
  const placed = [...rows].map(([name, at]) => [name, 3 + ((at.reduce((sum, n) => sum + n, 0) / at.length) + 0.5) * row]).sort(([, a], [, b]) => a - b);
  placed.forEach((one, at) => {
    if (at > 0) one[1] = Math.max(one[1], placed[at - 1][1] + 44);
  });
  // What was pushed below the last row goes back up.
  let lowest = queues.length * row - 18;
  for (const one of placed.toReversed()) {
    one[1] = Math.min(one[1], lowest);
    lowest = one[1] - 44;
  }
  return new Map(placed);
}

function queueBox(queue, live, { x, y, width, height }, narrow) {
  const [depth, drops] = live.queues[queue.name] ?? [null, null];
  const perSecond = live.dropped[queue.name] ?? 0;
  const full = depth === null ? 0 : Math.min(depth / queue.capacity, 1);
  const kind = perSecond > 0 ? "dropping" : full > 0.5 ? "filling" : "";
  const shortly = perSecond > 0 ? `drops ${rate(perSecond)}/s` : `${count(drops)} dropped`;
  const dropped = drops ? (narrow ? shortly : `${count(drops)} dropped${perSecond > 0 ? `, ${rate(perSecond)}/s` : ""}`) : "";
  const room = Math.floor((width - 20) / 7);
  const depthText = depth === null ? "" : `${count(depth)} / ${count(queue.capacity)}`;
  const last = shorten(dropped || (narrow ? queue.policy : `${queue.policy}: ${queue.when_full}`), room);
  return s("g", { class: `queue ${kind}`, "data-queue": queue.name },
    s("rect", { x, y, width, height, rx: 6, class: "frame" }),
    s("rect", { x, y: y + height - 5, width: Math.max(full * width, 0), height: 5, rx: 2, class: "fill" }),
    s("text", { x: x + 10, y: y + 17, class: "strong" }, shorten(queue.name, narrow ? Math.floor((width - 20) / 7.4) : 30)),
    s("text", narrow ? { x: x + 10, y: y + 33 } : { x: x + width - 10, y: y + 17, class: "end" }, depthText),
    s("text", { x: x + 10, y: y + (narrow ? 50 : 34), class: dropped ? "drops" : "faint" }, last),
    s("title", null, `${queue.name}: ${queue.doc}`));
}
