"""Talks to the server of websocket_server.py through a gateway: python websocket_client.py URL [CA]"""

import ssl
import sys

from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect


def main(url, ca=None):
    context = ssl.create_default_context(cafile=ca) if ca else None
    with connect(url + "/ws", ssl=context, max_size=None, subprotocols=["echo"]) as socket:
        assert socket.subprotocol == "echo", socket.subprotocol
        for message in ["", "hello", b"\x00\xff", "x" * 1_000_000, b"y" * 3_000_000]:
            socket.send(message)
            assert socket.recv(timeout=20) == message
        socket.ping().wait(20)
        # A fragmented message arrives as one.
        socket.send(iter(["one ", "two ", "three"]))
        assert socket.recv(timeout=20) == "one two three"
    assert socket.close_code == 1000, socket.close_code
    # Where upgrades are not allowed the request goes on as an ordinary one, without its wish.
    try:
        connect(url + "/plain", ssl=context)
    except InvalidStatus as refusal:
        assert refusal.response.status_code != 101, refusal
    else:
        raise AssertionError("a route that allows no upgrade gave one")
    print("every message came back")


if __name__ == "__main__":
    main(*sys.argv[1:])
