// Numbers as people read them.
"use strict";

/** 1234567 → 1.23 M. */
export function count(n) {
  if (n === null || n === undefined || Number.isNaN(n)) return "–";
  const abs = Math.abs(n);
  for (const [from, unit] of [[1e9, "G"], [1e6, "M"], [1e4, "k"]]) {
    if (abs >= from) return `${(n / (unit === "k" ? 1e3 : from)).toPrecision(3)} ${unit}`;
  }
  return Number.isInteger(n) ? String(n) : n.toPrecision(abs >= 100 ? 3 : 2);
}

/** Per second. */
export const rate = (n) => (n === null || n === undefined ? "–" : n === 0 ? "0" : n < 0.95 ? n.toFixed(1) : n < 10 ? n.toFixed(1).replace(/\.0$/, "") : count(Math.round(n)));

/** Milliseconds. */
export function ms(n) {
  if (n === null || n === undefined) return "–";
  if (n >= 10000) return `${(n / 1000).toFixed(0)} s`;
  if (n >= 1000) return `${(n / 1000).toFixed(1)} s`;
  return n >= 10 ? `${n.toFixed(0)} ms` : n >= 0.095 ? `${n.toFixed(1)} ms` : "< 0.1 ms";
}

/** 1536 → 1.5 KiB. */
export function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (n >= 1024 && at + 1 < units.length) [n, at] = [n / 1024, at + 1];
  return `${at === 0 || n >= 100 ? Math.round(n) : n.toFixed(1)} ${units[at]}`;
}

/** Seconds → 1 d 2 h. */
export function span(seconds) {
  const parts = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const first = parts.findIndex(([size]) => seconds >= size);
  if (first < 0) return "0 s";
  let rest = Math.floor(seconds);
  return parts.slice(first, first + 2).map(([size, unit]) => {
    const n = Math.floor(rest / size);
    rest -= n * size;
    return n ? `${n} ${unit}` : "";
  }).filter(Boolean).join(" ");
}

/** 0.123 → 12 %. */
export const percent = (part) => (part === null || part === undefined ? "–" : `${part > 0 && part < 0.0995 ? (part * 100).toFixed(1) : Math.round(part * 100)} %`);

/** No longer than `most`, the middle left out. */
export function shorten(text, most) {
  if (text.length <= most) return text;
  const head = Math.ceil((most - 1) * 0.6);
  return `${text.slice(0, head)}…${text.slice(text.length - (most - 1 - head))}`;
}
