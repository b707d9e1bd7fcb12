// Mapbox Vector Tiles, version 2: from the bytes of a tile to shapes that can be drawn. What cannot be read ends the tile.
"use strict";

/** Points of one tile; a tile with more is cut there, so that no tile can stop the page. */
const MAX_POINTS = 400000;
const [POINT, LINE, POLYGON] = [1, 2, 3];

/** Reads the fields of a protobuf message, within its bounds. */
class FieldReader {
  constructor(bytes, at = 0, end = bytes.length) {
    this.bytes = bytes;
    this.at = at;
    this.end = end;
  }

  varint() {
    let value = 0;
    for (let shift = 0; shift < 64; shift += 7) {
      if (this.at >= this.end) {
        throw new RangeError("a number is cut off");
      }
      const byte = this.bytes[this.at];
      this.at += 1;
      // Beyond 32 bits by multiplication: shifts would wrap.
      value += (byte & 0x7f) * 2 ** shift;
      if (byte < 0x80) {
        return value;
      }
    }
    throw new RangeError("a number is too long");
  }

  /** The next field: its number, and its content as a number or a reader. `null` at the end. */
  next() {
    if (this.at >= this.end) {
      return null;
    }
    const key = this.varint();
    const field = Math.floor(key / 8);
    switch (key % 8) {
      case 0:
        return { field, number: this.varint(), inside: null };
      case 1:
        return { field, number: 0, inside: this.take(8) };
      case 2:
        return { field, number: 0, inside: this.take(this.varint()) };
      case 5:
        return { field, number: 0, inside: this.take(4) };
      default:
        throw new RangeError("a field has an unknown form");
    }
  }

  take(length) {
    if (length > this.end - this.at) {
      throw new RangeError("a field is cut off");
    }
    const inside = new FieldReader(this.bytes, this.at, this.at + length);
    this.at += length;
    return inside;
  }

  text() {
    return new TextDecoder().decode(this.bytes.subarray(this.at, this.end));
  }
}

const signed = (number) => (number % 2 === 0 ? number / 2 : -(number + 1) / 2);

/** A layer's shapes: lines and polygons as paths, points as pairs, all in units of its extent. */
function emptyLayer() {
  return { name: "", extent: 4096, features: 0, lines: new Path2D(), polygons: new Path2D(), points: [] };
}

/** Adds a feature's geometry to its layer; how many points that took. */
function addGeometry(layer, type, commands) {
  let [x, y, points] = [0, 0, 0];
  const path = type === POLYGON ? layer.polygons : layer.lines;
  while (commands.at < commands.end) {
    const command = commands.varint();
    const [kind, count] = [command & 7, Math.floor(command / 8)];
    if (kind === 7) {
      path.closePath();
      continue;
    }
    if (kind !== 1 && kind !== 2) {
      throw new RangeError("a geometry has an unknown command");
    }
    for (let left = count; left > 0; left -= 1) {
      x += signed(commands.varint());
      y += signed(commands.varint());
      points += 1;
      if (type === POINT) {
        layer.points.push(x, y);
      } else if (kind === 1) {
        path.moveTo(x, y);
      } else {
        path.lineTo(x, y);
      }
    }
  }
  return points;
}

function addFeature(layer, message) {
  let [type, commands] = [0, null];
  for (let field = message.next(); field !== null; field = message.next()) {
    if (field.field === 3) {
      type = field.number;
    } else if (field.field === 4) {
      commands = field.inside;
    }
  }
  if (commands === null || type < POINT || type > POLYGON) {
    return 0;
  }
  layer.features += 1;
  return addGeometry(layer, type, commands);
}

function readLayer(message, room) {
  const layer = emptyLayer();
  const features = [];
  for (let field = message.next(); field !== null; field = message.next()) {
    if (field.field === 1 && field.inside) {
      layer.name = field.inside.text();
    } else if (field.field === 2 && field.inside) {
      features.push(field.inside);
    } else if (field.field === 5) {
      layer.extent = Math.max(field.number, 1);
    }
  }
  let points = 0;
  for (const feature of features) {
    if (points > room) {
      break;
    }
    points += addFeature(layer, feature);
  }
  return { layer, points };
}

/** The layers of a tile. */
function readTile(bytes) {
  const message = new FieldReader(bytes);
  const layers = [];
  let room = MAX_POINTS;
  for (let field = message.next(); field !== null && room > 0; field = message.next()) {
    if (field.field === 3 && field.inside) {
      const { layer, points } = readLayer(field.inside, room);
      layers.push(layer);
      room -= points;
    }
  }
  return layers;
}

/** The plain bytes of a tile, also of one that is compressed without saying so. */
async function plainBytes(blob) {
  const bytes = new Uint8Array(await blob.arrayBuffer());
  if (bytes[0] !== 0x1f || bytes[1] !== 0x8b) {
    return bytes;
  }
  const plain = blob.stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(plain).arrayBuffer());
}
