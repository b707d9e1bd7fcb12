// The overlay: who is connected, which topics there are, and every loss by name.
"use strict";

import { card, h, pill, show, table, tile } from "./dom.js";
import { count, ms, rate, shorten, span } from "./format.js";

export const title = "Overlay";
export const when = (snapshot) => Boolean(snapshot.services.overlay);
export const needs = { peers: "/overlay/peers", losses: "/overlay/losses", config: "/config" };
/** Seconds between two questions while the view is open. */
export const every = 2;

/** What the answers are lists of, whether they come bare or in an object beside other things. */
export const listIn = (answer, name) => (Array.isArray(answer) ? answer : (answer?.[name] ?? []));

export function render(main, { answers, now }) {
  const peers = listIn(answers.peers, "peers");
  const losses = listIn(answers.losses, "losses");
  const queued = peers.reduce((sum, peer) => sum + (peer.queued ?? 0), 0);
  show(main, h("div", { class: "tiles wide" },
    tile("this node", shorten(answers.peers?.node ?? "–", 11), answers.peers?.listen ?? ""),
    tile("peers", count(peers.length), "are connected"),
    tile("queued", count(queued), "frames on their way out", queued > 100 ? "warn" : ""),
    tile("losses", count(answers.losses?.total ?? losses.length), "each with its name", losses.length ? "warn" : ""),
    tile("refused", `${rate(now.services.overlay?.refused_now ?? 0)}/s`, "this second")),
  card("Peers", { class: "wide" }, table("Peers", [["node"], ["place"], ["dialled by"], ["key exchange"], ["up", "num"], ["heard", "num"], ["in", "num"], ["out", "num"], ["queued", "num"], ["state"]],
    peers.map((peer) => [h("code", { title: peer.node }, shorten(peer.node, 18)), h("code", { title: peer.place }, peer.place?.split("@").at(-1) ?? "–"), peer.dialled ? "us" : "it", peer.key_exchange ?? "–", span(peer.up_secs),
      `${ms(peer.heard_ms)} ago`, count(peer.frames_in), count(peer.frames_out), count(peer.queued), pill(peer.going ? "going" : "up", peer.going ? "warn" : "good")]), "No peer is connected.")),
  card("Topics", null, topics(losses, now, answers)),
  card("Losses", null, table("Losses", [["topic"], ["publisher"], ["seq", "num"], ["queue"], ["peer"], ["reason"]], losses.slice(-100).toReversed().map((loss) =>
    [h("code", null, loss.id.topic), h("code", { title: loss.id.publisher }, shorten(loss.id.publisher, 14)), loss.last > loss.id.seq ? `${count(loss.id.seq)} – ${count(loss.last)}` : count(loss.id.seq), loss.queue, loss.peer ? h("code", { title: loss.peer }, shorten(loss.peer, 14)) : "–", pill(loss.reason, "warn")]), "Nothing was lost.")));
}

/** The topics that the configuration follows, with what was lost of each. */
function topics(losses, now, answers) {
  const configured = (answers.config?.settings ?? []).filter(({ key }) => /^overlay\.topics(\[\d+\]\.name)?$/.test(key)).flatMap(({ value }) => value);
  const names = [...new Set([...configured.map((topic) => topic.name ?? topic), ...losses.map((loss) => loss.id.topic)])];
  return table("Topics", [["topic", "grow"], ["losses kept", "num"]], names.map((name) => [h("code", null, name), count(losses.filter((loss) => loss.id.topic === name).length)]), "No topics are configured.");
}
