"""Reads tiles of a pack over HTTP ranges: python pmtiles_client.py URL, with a line `z x y` for each on standard input.

Prints the zooms of the pack, and then each tile in hex.
"""

import sys
from urllib.request import Request, urlopen

from pmtiles.reader import Reader


def main(url):
    tags = set()

    def get_bytes(offset, length):
        with urlopen(Request(url, headers={"Range": f"bytes={offset}-{offset + length - 1}"})) as answer:
            assert answer.status == 206, answer.status
            tags.add(answer.headers["ETag"])
            return answer.read()

    reader = Reader(get_bytes)
    header = reader.header()
    print(header["min_zoom"], header["max_zoom"], reader.metadata()["name"])
    for line in sys.stdin:
        print(reader.get(*map(int, line.split())).hex())
    assert len(tags) == 1, tags


if __name__ == "__main__":
    main(*sys.argv[1:])
