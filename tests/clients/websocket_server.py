"""A WebSocket server that says everything back. Prints its port."""

import sys
import threading

from websockets.sync.server import serve


def echo(socket):
    for message in socket:
        socket.send(message)


if __name__ == "__main__":
    server = serve(echo, "127.0.0.1", 0, max_size=None, subprotocols=["echo"])
    print(server.socket.getsockname()[1], flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()  # until whoever started this is gone
