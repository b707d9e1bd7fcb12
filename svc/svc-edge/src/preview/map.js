// The map of a tile pack: pan, zoom, raster tiles, and the shapes of vector tiles by layer. No library, no other site.
"use strict";

const TILE = 256;
const MAX_KEPT = 600;
const MAX_LOADING = 12;
const EXTRA_ZOOM = 3;

const canvas = document.getElementById("map");
const pen = canvas.getContext("2d", { alpha: false });
const pack = document.documentElement.dataset.pack;
const place = document.getElementById("place");
const notice = document.getElementById("notice");

/** The middle of the view, in parts of the world from 0 to 1, and the zoom level, which need not be whole. */
const view = { x: 0.5, y: 0.5, zoom: 0 };
/** What the pack says of itself. */
let about = null;
/** Tiles by name, the longest unused first: { image, layers, text, state }. */
const tiles = new Map();
let loading = 0;
let wanted = [];
let drawn = false;

const clamp = (value, least, most) => Math.min(Math.max(value, least), most);
const isVector = () => about.format === "mvt" || Array.isArray(about.vector_layers);
/** The layers of a vector pack by name, in the order in which they are drawn: { hue, shown, count }. */
const layers = new Map();
let bordersShown = false;
/** Features that were drawn last. */
let featuresDrawn = 0;
const worldSize = () => TILE * 2 ** view.zoom;

function longitude(x) {
  return x * 360 - 180;
}

function latitude(y) {
  return (Math.atan(Math.sinh(Math.PI * (1 - 2 * y))) * 180) / Math.PI;
}

function mercatorX(degrees) {
  return (degrees + 180) / 360;
}

function mercatorY(degrees) {
  const angle = (clamp(degrees, -85.0511, 85.0511) * Math.PI) / 180;
  return (1 - Math.asinh(Math.tan(angle)) / Math.PI) / 2;
}

function sizeText(bytes) {
  return bytes < 1024 ? `${bytes} B` : `${(bytes / 1024).toFixed(1)} KiB`;
}

/** Draws soon, once, however often it is asked for. */
function redraw() {
  if (!drawn) {
    drawn = true;
    requestAnimationFrame(draw);
  }
}

function fitCanvas() {
  const ratio = window.devicePixelRatio || 1;
  const width = Math.round(canvas.clientWidth * ratio);
  const height = Math.round(canvas.clientHeight * ratio);
  if (canvas.width !== width || canvas.height !== height) {
    canvas.width = width;
    canvas.height = height;
  }
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
}

function colours() {
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue(name).trim();
  const lightness = of("--layer-lightness");
  return { ground: of("--ground"), line: of("--line"), text: of("--text"), fill: of("--fill"), lightness };
}

function draw() {
  drawn = false;
  fitCanvas();
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  const colour = colours();
  pen.fillStyle = colour.ground;
  pen.fillRect(0, 0, width, height);
  if (about === null) {
    return;
  }
  const level = clamp(Math.round(view.zoom), about.minzoom, about.maxzoom);
  const edge = worldSize() / 2 ** level;
  const left = view.x * worldSize() - width / 2;
  const top = view.y * worldSize() - height / 2;
  const rows = 2 ** level;
  wanted = [];
  featuresDrawn = 0;
  const lastRow = Math.min(rows - 1, Math.floor((top + height) / edge));
  const lastColumn = Math.floor((left + width) / edge);
  for (let row = Math.max(0, Math.floor(top / edge)); row <= lastRow; row += 1) {
    for (let column = Math.floor(left / edge); column <= lastColumn; column += 1) {
      // The world goes on to the left and to the right.
      const wrapped = ((column % rows) + rows) % rows;
      drawTile({ level, column: wrapped, row }, column * edge - left, row * edge - top, edge, colour);
    }
  }
  loadWanted();
  tellPlace();
  document.documentElement.dataset.features = String(featuresDrawn);
  // For whoever waits until there is something to see.
  document.documentElement.dataset.loaded = String(wanted.length === 0 && loading === 0);
}

function drawTile(at, left, top, edge, colour) {
  const name = `${at.level}/${at.column}/${at.row}`;
  const tile = tiles.get(name);
  if (tile === undefined) {
    wanted.push({ name, far: Math.hypot(left + edge / 2 - canvas.clientWidth / 2, top + edge / 2 - canvas.clientHeight / 2) });
    drawFromAbove(at, left, top, edge, colour);
  } else {
    // Used just now: the last to be forgotten.
    tiles.delete(name);
    tiles.set(name, tile);
    if (tile.image) {
      pen.imageSmoothingEnabled = edge < TILE * 2;
      pen.drawImage(tile.image, left, top, edge + 0.5, edge + 0.5);
    } else if (tile.layers) {
      drawLayers(tile.layers, { left, top, edge }, { left, top, edge }, colour);
    } else {
      drawFromAbove(at, left, top, edge, colour);
    }
  }
  if (isVector() && bordersShown) {
    drawOutline(tile, name, left, top, edge, colour);
  }
}

/** Until a tile is here, the part of a larger one stands for it. */
function drawFromAbove(at, left, top, edge, colour) {
  for (let up = 1; up <= at.level; up += 1) {
    const above = tiles.get(`${at.level - up}/${at.column >> up}/${at.row >> up}`);
    if (above?.layers) {
      const size = edge * 2 ** up;
      const origin = { left: left - (at.column % 2 ** up) * edge, top: top - (at.row % 2 ** up) * edge, edge: size };
      drawLayers(above.layers, origin, { left, top, edge }, colour);
      return;
    }
    const image = above?.image;
    if (image) {
      const part = image.width / 2 ** up;
      const [x, y] = [(at.column % 2 ** up) * part, (at.row % 2 ** up) * part];
      pen.drawImage(image, x, y, part, part, left, top, edge + 0.5, edge + 0.5);
      return;
    }
  }
}

/** A layer's colour, the same wherever it is drawn. */
function colourOf(name, lightness, alpha) {
  return `hsl(${layers.get(name).hue} 65% ${lightness} / ${alpha})`;
}

/** Draws the shapes of a tile that lies at `origin`, as far as they are inside of `part`. */
function drawLayers(shapes, origin, part, colour) {
  pen.save();
  pen.beginPath();
  pen.rect(part.left, part.top, part.edge, part.edge);
  pen.clip();
  const inOrder = [...shapes].sort((a, b) => layers.get(a.name).order - layers.get(b.name).order);
  for (const layer of inOrder.filter((one) => layers.get(one.name).shown)) {
    const scale = origin.edge / layer.extent;
    pen.save();
    pen.translate(origin.left, origin.top);
    pen.scale(scale, scale);
    pen.lineJoin = "round";
    pen.fillStyle = colourOf(layer.name, colour.lightness, 0.35);
    pen.strokeStyle = colourOf(layer.name, colour.lightness, 0.9);
    pen.fill(layer.polygons, "nonzero");
    pen.lineWidth = 0.8 / scale;
    pen.stroke(layer.polygons);
    pen.lineWidth = 1.6 / scale;
    pen.stroke(layer.lines);
    pen.restore();
    drawPoints(layer, origin, scale, colour);
    featuresDrawn += layer.features;
  }
  pen.restore();
}

function drawPoints(layer, origin, scale, colour) {
  pen.fillStyle = colourOf(layer.name, colour.lightness, 1);
  pen.strokeStyle = colour.ground;
  pen.lineWidth = 1;
  for (let at = 0; at < layer.points.length; at += 2) {
    pen.beginPath();
    pen.arc(origin.left + layer.points[at] * scale, origin.top + layer.points[at + 1] * scale, 4, 0, 2 * Math.PI);
    pen.fill();
    pen.stroke();
  }
}

/** Colours that layers of these names usually have. */
const USUAL_HUES = { water: 205, waterway: 205, ocean: 205, land: 95, landcover: 110, landuse: 80, park: 125, roads: 25, transportation: 25 };

/** Layers that were not known before are known from now on. */
function learnLayer(name) {
  if (layers.has(name)) {
    return;
  }
  // Neighbours get colours that are far apart.
  const others = [...layers.keys()].filter((known) => !Object.hasOwn(USUAL_HUES, known)).length;
  const hue = Object.hasOwn(USUAL_HUES, name) ? USUAL_HUES[name] : Math.round((290 + others * 137.5) % 360);
  layers.set(name, { hue, shown: true, order: layers.size });
  tellLegend();
}

function legendRow(text, checked, change) {
  const row = document.createElement("label");
  const box = document.createElement("input");
  box.type = "checkbox";
  box.checked = checked;
  box.addEventListener("change", () => {
    change(box.checked);
    redraw();
  });
  row.append(box, text);
  return row;
}

function tellLegend() {
  const list = document.getElementById("layers");
  list.replaceChildren();
  for (const [name, layer] of layers) {
    const row = legendRow(name, layer.shown, (shown) => (layer.shown = shown));
    const sample = document.createElement("span");
    sample.className = "sample";
    sample.style.background = colourOf(name, colours().lightness, 0.9);
    row.querySelector("input").after(sample);
    row.dataset.layer = name;
    list.append(row);
  }
  list.append(legendRow("Tile borders", bordersShown, (shown) => (bordersShown = shown)));
  document.getElementById("legend").hidden = false;
}

function drawOutline(tile, name, left, top, edge, colour) {
  if (tile?.state === "there") {
    pen.fillStyle = colour.fill;
    pen.fillRect(left + 1, top + 1, edge - 2, edge - 2);
  }
  pen.strokeStyle = colour.line;
  pen.strokeRect(left + 0.5, top + 0.5, edge - 1, edge - 1);
  pen.fillStyle = colour.text;
  pen.font = "13px system-ui, sans-serif";
  pen.fillText(name, left + 10, top + 22);
  pen.fillText(tile?.text ?? "…", left + 10, top + 40);
}

/** Loads what is in view and missing, nearest first. */
function loadWanted() {
  wanted.sort((a, b) => a.far - b.far);
  for (const { name } of wanted) {
    if (loading >= MAX_LOADING) {
      return;
    }
    if (!tiles.has(name)) {
      load(name);
    }
  }
}

async function load(name) {
  loading += 1;
  keep(name, { image: null, text: null, state: "asked" });
  let tile;
  try {
    tile = await fetched(name);
  } catch {
    tile = { image: null, text: "no answer", state: "failed" };
  }
  loading -= 1;
  keep(name, tile);
  redraw();
}

async function fetched(name) {
  const answer = await fetch(`${pack}/${name}`);
  if (answer.status === 204 || answer.status === 404) {
    return { image: null, text: "empty", state: "empty" };
  }
  if (!answer.ok) {
    return { image: null, text: `refused: ${answer.status}`, state: "failed" };
  }
  const blob = await answer.blob();
  if (isVector()) {
    const coding = answer.headers.get("content-encoding");
    const sent = Number(answer.headers.get("content-length")) || blob.size;
    const shapes = readTile(await plainBytes(blob));
    shapes.forEach((layer) => learnLayer(layer.name));
    const text = coding ? `${sizeText(sent)} ${coding}` : sizeText(sent);
    return { image: null, layers: shapes, text, state: "there" };
  }
  return { image: await createImageBitmap(blob), text: null, state: "there" };
}

function keep(name, tile) {
  tiles.get(name)?.image?.close();
  tiles.delete(name);
  tiles.set(name, tile);
  for (const [oldest, old] of tiles) {
    if (tiles.size <= MAX_KEPT) {
      return;
    }
    old.image?.close();
    tiles.delete(oldest);
  }
}

function tellPlace() {
  const [lat, lon] = [latitude(view.y).toFixed(4), longitude(view.x).toFixed(4)];
  place.textContent = `${lat}, ${lon} · zoom ${view.zoom.toFixed(1)}`;
}

function tellAddress() {
  const hash = `#${view.zoom.toFixed(2)}/${latitude(view.y).toFixed(5)}/${longitude(view.x).toFixed(5)}`;
  history.replaceState(null, "", hash);
}

/** Moves by pixels. */
function moveBy(right, down) {
  view.x = (((view.x + right / worldSize()) % 1) + 1) % 1;
  view.y = clamp(view.y + down / worldSize(), 0, 1);
  redraw();
}

/** Zooms, keeping what is under a point of the canvas where it is. */
function zoomBy(levels, x = canvas.clientWidth / 2, y = canvas.clientHeight / 2) {
  const most = about === null ? 22 : about.maxzoom + EXTRA_ZOOM;
  const least = about === null ? 0 : Math.max(0, about.minzoom - 1);
  const [fromX, fromY] = [x - canvas.clientWidth / 2, y - canvas.clientHeight / 2];
  moveBy(fromX, fromY);
  view.zoom = clamp(view.zoom + levels, least, most);
  moveBy(-fromX, -fromY);
}

/** The whole pack in view. */
function home() {
  const [west, south, east, north] = about.bounds ?? [-180, -85.0511, 180, 85.0511];
  const [left, right] = [mercatorX(west), mercatorX(east)];
  const [top, bottom] = [mercatorY(north), mercatorY(south)];
  view.x = (left + right) / 2;
  view.y = (top + bottom) / 2;
  const across = Math.max((right - left) / canvas.clientWidth, (bottom - top) / canvas.clientHeight, 1e-9);
  view.zoom = clamp(Math.log2(1 / (across * TILE)), about.minzoom, about.maxzoom);
  redraw();
}

/** Fingers and mouse buttons that are down, by their number. */
const pointers = new Map();

function spread() {
  const [a, b] = [...pointers.values()];
  return { x: (a.x + b.x) / 2, y: (a.y + b.y) / 2, gap: Math.hypot(a.x - b.x, a.y - b.y) };
}

function here(event) {
  const box = canvas.getBoundingClientRect();
  return { x: event.clientX - box.left, y: event.clientY - box.top };
}

canvas.addEventListener("pointerdown", (event) => {
  canvas.setPointerCapture(event.pointerId);
  pointers.set(event.pointerId, here(event));
});

canvas.addEventListener("pointermove", (event) => {
  const before = pointers.get(event.pointerId);
  if (before === undefined) {
    return;
  }
  const now = here(event);
  if (pointers.size === 2) {
    const was = spread();
    pointers.set(event.pointerId, now);
    const is = spread();
    moveBy(was.x - is.x, was.y - is.y);
    zoomBy(Math.log2(Math.max(is.gap, 1) / Math.max(was.gap, 1)), is.x, is.y);
    return;
  }
  pointers.set(event.pointerId, now);
  moveBy(before.x - now.x, before.y - now.y);
});

for (const end of ["pointerup", "pointercancel"]) {
  canvas.addEventListener(end, (event) => {
    pointers.delete(event.pointerId);
    tellAddress();
  });
}

canvas.addEventListener("wheel", (event) => {
  event.preventDefault();
  const { x, y } = here(event);
  zoomBy(clamp(-event.deltaY / 240, -1, 1), x, y);
  tellAddress();
}, { passive: false });

canvas.addEventListener("dblclick", (event) => {
  const { x, y } = here(event);
  zoomBy(1, x, y);
  tellAddress();
});

const KEYS = {
  ArrowLeft: () => moveBy(-80, 0),
  ArrowRight: () => moveBy(80, 0),
  ArrowUp: () => moveBy(0, -80),
  ArrowDown: () => moveBy(0, 80),
  "+": () => zoomBy(1),
  "=": () => zoomBy(1),
  "-": () => zoomBy(-1),
  0: home,
  Home: home,
};

canvas.addEventListener("keydown", (event) => {
  if (Object.hasOwn(KEYS, event.key) && !event.ctrlKey && !event.metaKey && about !== null) {
    event.preventDefault();
    KEYS[event.key]();
    tellAddress();
  }
});

document.getElementById("closer").addEventListener("click", () => zoomBy(1));
document.getElementById("farther").addEventListener("click", () => zoomBy(-1));
document.getElementById("all").addEventListener("click", () => about !== null && home());
window.addEventListener("resize", redraw);

/** The view that the address names, if it names one. */
function viewFromAddress() {
  const parts = location.hash.slice(1).split("/").map(Number);
  if (parts.length !== 3 || !parts.every(Number.isFinite)) {
    return false;
  }
  const [zoom, lat, lon] = parts;
  view.zoom = clamp(zoom, 0, about.maxzoom + EXTRA_ZOOM);
  view.x = clamp(mercatorX(lon), 0, 1);
  view.y = clamp(mercatorY(lat), 0, 1);
  redraw();
  return true;
}

function tellAbout() {
  const facts = [
    ["Tiles", about.format ?? "unknown"],
    ["Zoom", `${about.minzoom} to ${about.maxzoom}`],
    ["Count", about.tile_count === undefined ? "unknown" : about.tile_count.toLocaleString("en")],
    ["Bounds", (about.bounds ?? []).map((degrees) => degrees.toFixed(3)).join(", ")],
    ["Content id", about.id ?? "none"],
  ];
  const list = document.getElementById("facts");
  for (const [name, value] of facts) {
    const term = document.createElement("dt");
    const text = document.createElement("dd");
    term.textContent = name;
    text.textContent = value;
    list.append(term, text);
  }
  document.getElementById("attribution").textContent = plain(about.attribution ?? "");
}

/** Attributions are often written as HTML; shown is their text alone. */
function plain(html) {
  return new DOMParser().parseFromString(html, "text/html").body.textContent;
}

async function start() {
  const answer = await fetch(`${pack}.json`);
  if (!answer.ok) {
    const problem = await answer.json().catch(() => ({}));
    throw new Error(problem.detail ?? `the pack answers ${answer.status}`);
  }
  about = await answer.json();
  tellAbout();
  notice.hidden = true;
  if (isVector()) {
    (about.vector_layers ?? []).forEach((layer) => learnLayer(String(layer.id)));
    document.getElementById("legend").open = window.innerWidth > 600;
    tellLegend();
  }
  if (!viewFromAddress()) {
    home();
  }
}

start().catch((error) => {
  notice.hidden = false;
  notice.textContent = error.message;
});
redraw();
