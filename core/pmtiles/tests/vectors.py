#!/usr/bin/env python3
"""Packs written by the `pmtiles` package for Python, which shares no code with ours (pip install pmtiles==3.8.1).

    vectors.py write FOLDER    writes flat.pmtiles and leaves.pmtiles anew
    vectors.py check FILE      reads a pack and prints how many tiles it has and the SHA-256 of them all

Tile n is the decimal text of n squared, or "sea" if n is a multiple of five; which tiles there are is the business of
`numbers`. The metadata has ids of tiles as that package computes them.
"""
import hashlib, sys
from pathlib import Path

from pmtiles.reader import MemorySource, all_tiles
from pmtiles.tile import Compression, TileType, tileid_to_zxy, zxy_to_tileid
from pmtiles.writer import write


def numbers(count, spread):
    """Ascending, with gaps that do not compress well."""
    number, state = 0, 1
    for _ in range(count):
        yield number
        state = (state * 1103515245 + 12345) % 2**31
        number += 1 + (state >> 16) % spread


def ids():
    corners = [(z, x, y) for z in range(32) for x in {0, 2**z - 1} for y in {0, 2**z - 1}]
    inside = [tileid_to_zxy(number) for number in numbers(200, 30000)]
    return [[*zxy, zxy_to_tileid(*zxy)] for zxy in corners + inside]


def pack(path, count, spread):
    with write(path) as writer:
        for number in numbers(count, spread):
            writer.write_tile(number, b"sea" if number % 5 == 0 else str(number * number).encode())
        header = {
            "tile_type": TileType.MVT, "tile_compression": Compression.GZIP,
            "min_lon_e7": -100000000, "min_lat_e7": -200000000, "max_lon_e7": 300000000, "max_lat_e7": 400000000,
            "center_zoom": 2, "center_lon_e7": 10000000, "center_lat_e7": -20000000,
        }
        writer.finalize(header, {"name": path.stem, "ids": ids()})


def main(what, where):
    if what == "write":
        pack(Path(where) / "flat.pmtiles", 100, 1)
        pack(Path(where) / "leaves.pmtiles", 8000, 700)
    else:
        digest, count = hashlib.sha256(), 0
        for zxy, content in all_tiles(MemorySource(Path(where).read_bytes())):
            digest.update(b"%d/%d/%d %d\n" % (*zxy, len(content)) + content)
            count += 1
        print(count, digest.hexdigest())


main(*sys.argv[1:])
