"""Uses the client library for Python against a node: publish, subscribe, go on after a cut, be refused."""
import sys

from omnigate import Refused, Topics

url, token = sys.argv[1:]
topics = Topics(url, token=token)


def cut():
    """Has the test cut all connections."""
    print("cut", flush=True)
    assert sys.stdin.readline() == "done\n"


first = topics.publish("lib.a", "zero")
assert (first["verdict"], first["id"]["seq"]) == ("local_only", 1), first
assert topics.publish("lib.a", "one", wait=5)["id"]["seq"] == 2

# From before the first event of this life of the node.
heard = topics.subscribe("lib.a", after=f"{first['id']['incarnation']}-0")
assert [next(heard).text, next(heard).text] == ["zero", "one"]
cut()
topics.publish("lib.a", "two")
event = next(heard)
assert (event.kind, event.text) == ("publication", "two"), event
cut()
topics.publish("lib.a", b"\x00\xff")
event = next(heard)
assert (event.kind, event.body, event.text) == ("publication", b"\x00\xff", None), event

for refused in (lambda: topics.publish("other", "x"), lambda: next(topics.subscribe(">"))):
    try:
        refused()
    except Refused as error:
        assert (error.status, error.reason) == (403, "forbidden") and error.corr_id, error
    else:
        sys.exit("it was not refused")
