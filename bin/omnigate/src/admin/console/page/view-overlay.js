// The overlay: who is connected, which topics there are, and every loss by name.
"use strict";

import { card, h, pill, show, table, tile } from "./dom.js";
import { count, ms, shorten } from "./format.js";

export const title = "Overlay";
export const when = (snapshot) => Boolean(snapshot.services.overlay);
export const needs = { peers: "/overlay/peers", losses: "/overlay/losses" };
/** Seconds between two questions while the view is open. */
export const every = 2;

/** What the answers are lists of, whether they come bare or in an object beside other things. */
export const listIn = (answer, name) => (Array.isArray(answer) ? answer : (answer?.[name] ?? []));

export function render(main, { answers, now }) {
  const peers = listIn(answers.peers, "peers");
  const losses = listIn(answers.losses, "losses");
  const about = Array.isArray(answers.peers) ? {} : (answers.peers ?? {});
  const topics = about.topics ?? [...new Set(peers.flatMap((peer) => peer.topics ?? []))];
  show(main, h("div", { class: "tiles wide" },
    about.node ? tile("this node", shorten(about.node, 16), "its id") : null,
    tile("peers", count(peers.length), "connected"), tile("topics", count(topics.length), "are followed"),
    tile("losses", count(about.lost ?? answers.losses?.total ?? losses.length), "each has a name", losses.length ? "warn" : ""),
    tile("connections", count(now.services.overlay?.children.connection ?? peers.length), "of the service")),
  card("Peers", { class: "wide" }, generic("Peers", peers, ["node", "id", "addr", "direction", "state", "topics"], "No peer is connected.")),
  card("Topics", null, topicsTable(topics)),
  card("Losses", null, generic("Losses", losses.slice(-100).toReversed(), ["topic", "publisher", "seq", "reason", "queue", "peer"], "Nothing was lost.")));
}

function topicsTable(topics) {
  if (topics.length && typeof topics[0] === "object") return generic("Topics", topics, ["topic", "name"], "No topic is followed.");
  return table("Topics", [["topic"]], topics.map((topic) => [h("code", null, String(topic))]), "No topic is followed.");
}

/** A table of whatever the rows have, the named columns first. */
export function generic(name, rows, first, empty) {
  const simple = (value) => value === null || typeof value !== "object" || (Array.isArray(value) && value.every((item) => typeof item !== "object"));
  const found = [...new Set(rows.flatMap((row) => Object.keys(row).filter((key) => simple(row[key]))))];
  const columns = [...first.filter((key) => found.includes(key)), ...found.filter((key) => !first.includes(key))].slice(0, 9);
  const isNumber = (key) => rows.every((row) => row[key] === undefined || row[key] === null || typeof row[key] === "number");
  return table(name, columns.map((key) => [key.replaceAll("_", " "), isNumber(key) ? "num" : ""]), rows.map((row) => columns.map((key) => cell(key, row[key]))), empty);
}

function cell(key, value) {
  if (value === null || value === undefined) return "–";
  if (typeof value === "boolean") return pill(value ? "yes" : "no", value ? "good" : "note");
  if (typeof value === "number") return key.endsWith("_ms") ? ms(value) : count(value);
  const text = Array.isArray(value) ? value.join(", ") : String(value);
  if (key === "state" || key === "reason" || key === "direction") return pill(text, text === "up" || text === "connected" ? "good" : "info");
  return h("code", { title: text }, shorten(text, 34));
}
