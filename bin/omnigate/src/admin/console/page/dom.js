// Elements without a library: make them, and change what is there into what should be.
"use strict";

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "style") {
      // Through the object model: the page's policy forbids the attribute.
      for (const [property, to] of Object.entries(value)) element.style.setProperty(property, to);
    } else if (name.startsWith("on")) {
      element[name] = value;
    } else {
      element.setAttribute(name, value === true ? "" : value);
    }
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** An element of HTML. */
export const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);

/** An element of SVG. */
export const s = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

const HANDLERS = ["onclick", "oninput", "onchange", "onsubmit", "onkeydown", "ontoggle"];

/** Changes `old` into `fresh` without replacing what can stay: focus, selection and scroll positions survive. */
export function morph(old, fresh) {
  for (const { name } of [...old.attributes]) {
    if (name !== "style" && !fresh.hasAttribute(name) && !(name === "open" && old.dataset.keep !== undefined)) {
      old.removeAttribute(name);
    }
  }
  for (const { name, value } of fresh.attributes) {
    if (name !== "style" && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  if (old.style && old.style.cssText !== fresh.style.cssText) old.style.cssText = fresh.style.cssText;
  for (const handler of HANDLERS) if (old[handler] !== fresh[handler]) old[handler] = fresh[handler];
  morphChildren(old, fresh);
}

function morphChildren(old, fresh) {
  const wanted = [...fresh.childNodes];
  wanted.forEach((child, at) => {
    const present = old.childNodes[at];
    if (!present) old.append(child);
    else if (isAlike(present, child)) {
      if (child.nodeType === Node.TEXT_NODE) {
        if (present.data !== child.data) present.data = child.data;
      } else if (present.tagName !== "INPUT") morph(present, child);
    } else present.replaceWith(child);
  });
  while (old.childNodes.length > wanted.length) old.lastChild.remove();
}

const isAlike = (one, other) =>
  one.nodeType === other.nodeType && one.nodeName === other.nodeName && one.dataset?.key === other.dataset?.key;

/** Makes `parent` hold exactly these children. */
export function show(parent, ...children) {
  const fresh = h("div", null, ...children);
  morphChildren(parent, fresh);
}

/** A card with a heading. */
export const card = (title, attributes, ...children) =>
  h("section", { ...attributes, class: `card ${attributes?.class ?? ""}`.trim() }, h("h2", null, title), ...children);

/** A number with what it is, for the row at the top of a view. */
export const tile = (name, value, note, kind) =>
  h("div", { class: `tile ${kind ?? ""}`.trim() }, h("span", { class: "name" }, name), h("b", null, value), h("span", { class: "note" }, note ?? ""));

/** A word in a coloured frame. */
export const pill = (text, kind) => h("span", { class: `pill ${kind ?? ""}`.trim() }, text);

/** A table. Columns are `[heading, class]`, cells are nodes or text; on a narrow screen each row becomes a block. */
export function table(name, columns, rows, empty) {
  if (rows.length === 0) return h("p", { class: "empty" }, empty ?? "Nothing yet.");
  const head = h("tr", null, columns.map(([heading, kind]) => h("th", { scope: "col", class: kind ?? "" }, heading)));
  const line = (cells) =>
    h("tr", null, cells.map((cell, at) => h("td", { class: columns[at][1] ?? "", "data-name": columns[at][0] }, cell)));
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": name },
    h("table", null, h("thead", null, head), h("tbody", null, rows.map(line))));
}
