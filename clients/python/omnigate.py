"""Publish and subscribe through a node of Omnigate, with nothing but the standard library.

    topics = Topics("http://127.0.0.1:9510", token="og1.…")
    topics.publish("chat.room1", "hello")
    for event in topics.subscribe("chat.>"):
        if event.kind == "publication":
            print(event.data["topic"], event.text)

A subscription goes on by itself after its connection breaks, behind the last event it gave out. What was missed is an event
of its own: `gap`, `lagging`, `not_resumed` or `no_room`.
"""

import base64
import http.client
import json
import ssl
import time
import urllib.parse


class Refused(Exception):
    """The node does not do what it is asked to. `retry_after` is when to come back, in seconds, if it says so."""

    def __init__(self, status, problem):
        super().__init__(f"{status} {problem.get('reason', '')}: {problem.get('detail', '')}")
        self.status = status
        self.reason = problem.get("reason")
        self.detail = problem.get("detail")
        self.corr_id = problem.get("corr_id")
        millis = problem.get("retry_after_ms")
        self.retry_after = None if millis is None else millis / 1000


class Event:
    """What is heard: its kind, its id (to go on behind it), and what it says."""

    def __init__(self, kind, id, data):
        self.kind, self.id, self.data = kind, id, data

    @property
    def body(self):
        """The bytes of a publication."""
        if "base64" in self.data:
            return base64.b64decode(self.data["base64"])
        return self.data["text"].encode()

    @property
    def text(self):
        """The text of a publication; none if it is no text."""
        return self.data.get("text")

    def __repr__(self):
        return f"Event({self.kind!r}, {self.id!r}, {self.data!r})"


class Topics:
    """The topics of a node."""

    def __init__(self, url, token=None, timeout=60, context=None):
        """`timeout` is for each wait, and longer than the 15 s between two signs of life; `context` is one of `ssl`."""
        parts = urllib.parse.urlsplit(url)
        self._host, self._base = parts.netloc, parts.path.rstrip("/")
        self._context = (context or ssl.create_default_context()) if parts.scheme == "https" else None
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._timeout = timeout

    def publish(self, topic, body, wait=0):
        """Publishes text or bytes: `{"verdict": "accepted" or "local_only", "id": {…}}`.

        A busy node is asked again for `wait` seconds, as it says; then Refused.
        """
        body, end = body.encode() if isinstance(body, str) else body, time.monotonic() + wait
        while True:
            try:
                return self._publish(topic, body)
            except Refused as refused:
                pause = refused.retry_after
                if refused.status != 429 or pause is None or time.monotonic() + pause > end:
                    raise
                time.sleep(pause)

    def _publish(self, topic, body):
        path = f"{self._base}/v1/topics/{urllib.parse.quote(topic, safe='')}"
        connection = self._connect()
        try:
            connection.request("POST", path, body, self._headers)
            return json.loads(_good(connection.getresponse()).read())
        finally:
            connection.close()

    def subscribe(self, *patterns, after=None, reconnect=True):
        """Events of these topics and patterns, for as long as they are asked for.

        With `after`, the id of an event, it begins behind that one. With `reconnect=False` it ends with its connection.
        """
        pause = 0.1
        while True:
            try:
                for event in self._listen(patterns, after):
                    after, pause = event.id or after, 0.1
                    if event.kind != "closed":
                        yield event
                    else:
                        raise Refused(401, {"reason": event.data.get("reason"), "detail": "the token is over"})
            except (OSError, http.client.HTTPException):
                if not reconnect:
                    raise
            except Refused as refused:
                if refused.status not in (429, 502, 503, 504) or not reconnect:
                    raise
                pause = refused.retry_after or pause
            if not reconnect:
                return
            time.sleep(pause)
            pause = min(pause * 2, 5)

    def _listen(self, patterns, after):
        first, *others = [urllib.parse.quote(pattern, safe="") for pattern in patterns]
        query = "&".join(f"topic={other}" for other in others)
        path = f"{self._base}/v1/topics/{first}/events{'?' + query if query else ''}"
        headers = self._headers | {"Accept": "text/event-stream"} | ({"Last-Event-ID": after} if after else {})
        connection = self._connect()
        try:
            connection.request("GET", path, headers=headers)
            yield from _events(_good(connection.getresponse()))
        finally:
            connection.close()

    def _connect(self):
        if self._context:
            return http.client.HTTPSConnection(self._host, timeout=self._timeout, context=self._context)
        return http.client.HTTPConnection(self._host, timeout=self._timeout)


def _good(response):
    if response.status == 200:
        return response
    try:
        problem = json.loads(response.read())
    except ValueError:
        problem = {"detail": response.reason}
    raise Refused(response.status, problem)


def _events(response):
    fields = {}
    for line in response:
        line = line.decode().rstrip("\r\n")
        if line:
            name, _, value = line.partition(":")
            if name:
                fields[name] = value.removeprefix(" ")
        elif fields:
            if "data" in fields:
                yield Event(fields.get("event", "message"), fields.get("id"), json.loads(fields["data"]))
            fields = {}
