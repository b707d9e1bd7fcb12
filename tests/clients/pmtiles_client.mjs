// Reads tiles of a pack over HTTP ranges: node pmtiles_client.mjs PACKAGES URL, with a line `z x y` for each on standard
// input. Prints the zooms of the pack, and then each tile in hex.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const [packages, url] = process.argv.slice(2);
const { PMTiles } = createRequire(packages + "/")("pmtiles");

const pack = new PMTiles(url);
const header = await pack.getHeader();
console.log(header.minZoom, header.maxZoom, (await pack.getMetadata()).name);
for (const line of readFileSync(0, "utf8").trim().split("\n")) {
    const tile = await pack.getZxy(...line.split(" ").map(Number));
    console.log(Buffer.from(tile.data).toString("hex"));
}
