// Epochs, what they paid, and a checker that believes nobody: it computes every hash here.
"use strict";

import { card, h, pill, show, table, tile } from "./dom.js";
import { bar } from "./charts.js";
import { ask, askLines } from "./feed.js";
import { count, shorten } from "./format.js";
import { listIn } from "./view-overlay.js";
import { check } from "./proof.js";

export const title = "Rewards";
export const when = (snapshot) => Boolean(snapshot.services.rewarder);
export const needs = { epochs: "/rewarder/epochs" };
export const every = 2;

/** Payouts that are shown; the file has all. */
const LISTED = 100;
const STATES = { settled: "good", quarantined: "bad", unfunded: "warn" };
/** An epoch's way, in order. */
const WAY = ["open", "sealed", "computing", "computed", "emitting", "settled"];

/** What is looked at: the latest epoch that was paid, until somebody picks one or begins to check a proof. */
const chosen = { epoch: null, isPicked: false, detail: null, verdict: null };

export function render(main, context) {
  const epochs = listIn(context.answers.epochs, "epochs").toSorted((one, two) => number(two) - number(one));
  const again = () => render(main, context);
  const settled = epochs.filter((epoch) => epoch.state === "settled").length;
  follow(epochs, again);
  show(main, h("div", { class: "tiles wide" }, tile("epochs", count(epochs.length), "are kept"), tile("settled", count(settled), "are paid"),
    tile("quarantined", count(epochs.filter((epoch) => epoch.state === "quarantined").length), "pay nothing until looked at")),
  card("Epochs", { class: "wide" }, epochTable(epochs, again)),
  card(chosen.epoch === null ? "Payouts" : `Payouts of epoch ${chosen.epoch}`, null, payouts()),
  card("Proof checker", null, checker(again)));
}

const number = (epoch) => epoch.epoch ?? epoch.id;

/** Looks at another epoch if there is one to look at, and again at one that has moved on. */
function follow(epochs, again) {
  const latest = epochs.find((epoch) => epoch.state === "settled") ?? epochs[0];
  const shown = epochs.find((epoch) => number(epoch) === chosen.epoch);
  if (!chosen.isPicked && latest && latest !== shown) choose(latest, again);
  else if (shown && shown.state !== chosen.state) choose(shown, again);
}

function pick(epoch, again) {
  chosen.isPicked = true;
  chosen.verdict = null;
  choose(epoch, again);
}

async function choose({ state, ...of }, again) {
  const epoch = number(of);
  // What is shown of an epoch stays until there is more to show.
  if (epoch !== chosen.epoch) [chosen.detail, chosen.verdict] = [null, null];
  [chosen.epoch, chosen.state] = [epoch, state];
  try {
    const detail = await ask(`/rewarder/epochs/${epoch}`);
    const lines = detail?.files?.includes("allocations.jsonl") ? await askLines(`/rewarder/epochs/${epoch}/files/allocations.jsonl`, LISTED) : [];
    if (epoch !== chosen.epoch) return;
    chosen.detail = { ...detail, payouts: lines.toSorted((one, two) => (BigInt(two.payout) > BigInt(one.payout) ? 1 : -1)) };
  } catch (error) {
    chosen.detail = { problem: error.message };
  }
  again();
}

function epochTable(epochs, again) {
  const rows = epochs.slice(0, 50).map((epoch) => {
    const step = WAY.indexOf(epoch.state);
    const posted = epoch.state === "emitting" && epoch.batches ? epoch.batches_posted / epoch.batches : 0;
    const part = step >= 0 ? Math.min((step + posted) / (WAY.length - 1), 1) : 0;
    return [h("button", { type: "button", class: "link", "aria-pressed": String(number(epoch) === chosen.epoch), onclick: () => pick(epoch, again) }, `epoch ${number(epoch)}`),
      pill(epoch.state ?? "–", STATES[epoch.state] ?? "info"), bar([[part, STATES[epoch.state] === "bad" ? "c4" : "c2"]], null, `${epoch.state}`),
      `${count(epoch.batches_posted ?? 0)} of ${count(epoch.batches ?? 0)}`, epoch.reason ? h("span", { class: "problem" }, epoch.reason) : h("code", { title: epoch.commitment ?? "" }, epoch.commitment ? shorten(epoch.commitment, 20) : "–")];
  });
  return table("Epochs", [["epoch"], ["state"], ["progress", "grow"], ["batches paid", "num"], ["commitment, or what is wrong", "long"]], rows, "No epoch has ended yet.");
}

const amount = (value) => (value === undefined || value === null ? "–" : String(value).replace(/\B(?=(\d{3})+$)/g, " "));
const manifest = () => chosen.detail?.manifest ?? chosen.detail?.run ?? null;

function payouts() {
  const { detail } = chosen;
  if (chosen.epoch === null) return h("p", { class: "empty" }, "No epoch has been paid yet.");
  if (!detail) return h("p", { class: "empty" }, "Asking …");
  if (detail.problem) return h("p", { class: "problem" }, detail.problem);
  const run = manifest() ?? detail;
  const lines = detail.payouts ?? [];
  const facts = ["state", "paid", "residual", "pool", "score_total", "batches"].filter((key) => run[key] ?? detail[key]);
  return h("div", null, h("dl", { class: "facts" }, facts.flatMap((key) => [h("dt", null, key.replace("_", " ")), h("dd", null, amount(run[key] ?? detail[key]))])),
    table("Payouts", [["actor"], ["payout", "num"], ["share", "num"], ["score", "num long"], ["rule"]],
      lines.map((line) => [h("b", null, line.actor), amount(line.payout), amount(line.share), amount(line.score), line.rule ?? "–"]), "No payouts, or the files were removed."));
}

function checker(again) {
  const { verdict } = chosen;
  const submit = async (event) => {
    event.preventDefault();
    const actor = new FormData(event.target).get("actor").trim();
    try {
      const proof = actor.startsWith("{") ? JSON.parse(actor) : await ask(`/rewarder/epochs/${chosen.epoch}/proof/${encodeURIComponent(actor)}`);
      chosen.verdict = proof ? { proof, ...check(proof, proof.epoch === chosen.epoch ? manifest() : null) } : { steps: [], problem: "there is no proof for that actor" };
    } catch (error) {
      chosen.verdict = { steps: [], problem: error.message };
    }
    again();
  };
  return h("div", null,
    h("p", { class: "faint" }, "Enter an actor, or paste a proof. Every hash from the line to the root is computed in this page."),
    h("form", { class: "filter", onsubmit: submit }, h("label", null, "Actor or proof ", h("input", { name: "actor", "data-key": "actor", required: true, oninput: () => { chosen.isPicked = true; } })), h("button", { type: "submit" }, "Check")),
    verdict ? h("div", { class: "verdicts", role: "status" },
      h("p", null, verdict.problem ? pill("not proven", "bad") : pill("proven", "good"), ` ${verdict.problem ?? verdict.partial ?? "The line is part of the run, and the run matches the commitment."}`),
      verdict.proof ? h("pre", null, JSON.stringify(verdict.proof.allocation, null, 2)) : null,
      h("ol", { class: "steps" }, verdict.steps.map(([what, hash]) => h("li", null, what, " ", h("code", null, shorten(hash, 30)))))) : null);
}
