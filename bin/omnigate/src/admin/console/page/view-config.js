// Every setting, its value and where it comes from. Secrets do not leave the node.
"use strict";

import { card, h, pill, show, table } from "./dom.js";

export const title = "Config";
export const needs = { config: "/config" };
/** Asked for again when the view is opened. */
export const fresh = true;

const shownBy = { text: "", changed: false };

export function render(main, context) {
  const config = context.answers.config;
  if (!config) return show(main, card("Config", { class: "wide" }, h("p", { class: "empty" }, "Asking …")));
  const again = () => render(main, context);
  const wanted = config.settings.filter(({ key, value, origin }) =>
    (!shownBy.changed || origin !== "default") && `${key} ${JSON.stringify(value)} ${origin}`.toLowerCase().includes(shownBy.text));
  const rows = wanted.map(({ key, value, origin }) => [h("code", null, key), h("code", { class: "value" }, text(value)), pill(origin, origin === "default" ? "note" : "info")]);
  return show(main, card("Config", { class: "wide config" },
    h("p", { class: "faint" }, `Generation ${config.generation}, from ${config.file}. `, config.refused ? pill("the file as it is now was refused", "bad") : ""),
    h("div", { class: "filter" },
      h("label", null, "Find ", h("input", { type: "search", "data-key": "find", placeholder: "gateway.max_conns", oninput: (event) => { shownBy.text = event.target.value.toLowerCase(); again(); } })),
      h("label", null, h("input", { type: "checkbox", "data-key": "changed", onchange: (event) => { shownBy.changed = event.target.checked; again(); } }), " only what is not the default")),
    h("p", { class: "faint small", role: "status" }, `${wanted.length} of ${config.settings.length} settings`),
    table("Settings", [["setting"], ["value", "grow"], ["from"]], rows, "No setting matches.")));
}

const text = (value) => (typeof value === "string" ? value || "\"\"" : JSON.stringify(value));
