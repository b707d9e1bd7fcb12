"""Talks to the server of websocket_server.py through a gateway: python websocket_client.py URL [CA]

On one thread: the client of the same package that has two reads and writes a TLS connection at once, which OpenSSL does
not allow. When the server's session tickets come while the request goes out, such a connection may end without an answer.
"""

import asyncio
import ssl
import sys

from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

# Ample on a machine that is busy with much else.
PATIENCE = 60


async def main(url, ca=None):
    options = {"ssl": ssl.create_default_context(cafile=ca) if ca else None, "open_timeout": PATIENCE, "proxy": None}
    async with connect(url + "/ws", max_size=None, subprotocols=["echo"], **options) as socket:
        assert socket.subprotocol == "echo", socket.subprotocol
        for message in ["", "hello", b"\x00\xff", "x" * 1_000_000, b"y" * 3_000_000]:
            await socket.send(message)
            assert await asyncio.wait_for(socket.recv(), PATIENCE) == message
        await asyncio.wait_for(await socket.ping(), PATIENCE)
        # A fragmented message arrives as one.
        await socket.send(iter(["one ", "two ", "three"]))
        assert await asyncio.wait_for(socket.recv(), PATIENCE) == "one two three"
    assert socket.close_code == 1000, socket.close_code
    # Where upgrades are not allowed the request goes on as an ordinary one, without its wish.
    try:
        await connect(url + "/plain", **options)
    except InvalidStatus as refusal:
        assert refusal.response.status_code != 101, refusal
    else:
        raise AssertionError("a route that allows no upgrade gave one")
    print("every message came back")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
