#!/usr/bin/env python3
"""A second implementation of capability tokens, written from docs/capabilities.md with nothing but the standard library.

    vectors.py check FILE    every vector's verdict is the one this implementation comes to
    vectors.py write FILE    writes the vectors anew
"""
import base64, hashlib, hmac, ipaddress, json, re, struct, sys

TENANT, PATH, METHODS, EXPIRES, NOT_BEFORE, NETWORKS, SCOPES, CLASS, NODES, CHANNEL, PUBLISH, SUBSCRIBE = range(
    1, 13
)
CLASSES = {1: "authed", 2: "internal"}
FORBIDDEN = {"unknown_caveat", "wrong_path", "wrong_method", "wrong_address", "wrong_tenant", "wrong_scope",
             "wrong_node", "wrong_channel", "wrong_topic"}
NAME = re.compile(r"[A-Za-z0-9._-]{1,64}\Z")


TOPIC_TOKEN = re.compile(r"[a-z0-9/_-]*\Z")


class Refused(Exception):
    """The name of the verdict."""


def mac(key, message):
    return hmac.new(key, message, hashlib.sha256).digest()


def derived(secret):
    return mac(secret, b"omnigate captoken 1 id")[:8], mac(secret, b"omnigate captoken 1 mac")


def b64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def split(text):
    if len(text) > 1024:
        raise Refused("too_large")
    if not re.match(r"og1\.[A-Za-z0-9_-]*\Z", text) or len(text) % 4 == 1:
        raise Refused("malformed")
    data = base64.urlsafe_b64decode(text[4:] + "=" * (-len(text) % 4))
    if b64(data) != text[4:] or len(data) < 60 or data[0] != 1 or data[1] not in CLASSES:
        raise Refused("malformed")
    signed, tag = data[:-32], data[-32:]
    end = 28 + signed[27]
    if end > len(signed):
        raise Refused("malformed")
    header, rest, caveats = signed[:end], signed[end:], []
    names(header[28:])
    while rest:
        if len(caveats) == 16:
            raise Refused("too_many_caveats")
        if len(rest) < 2 or len(rest) < 2 + rest[1]:
            raise Refused("malformed")
        caveats.append(rest[: 2 + rest[1]])
        rest = rest[2 + rest[1] :]
    if len(caveats) < header[26]:
        raise Refused("malformed")
    return header, caveats, tag


def messages(header, caveats):
    """What each HMAC is over: the header with the sealed caveats, then each caveat that was added."""
    sealed = header[26]
    return [header + b"".join(caveats[:sealed]), *caveats[sealed:]]


def names(value):
    text = value.decode("ascii", "replace")
    found = text.split(",") if text else []
    if not all(NAME.match(name) for name in found):
        raise Refused("malformed")
    return found


def visible(value):
    if not all(33 <= byte <= 126 for byte in value):
        raise Refused("malformed")
    return value.decode()


def wanders(path):
    for code, plain in ((r"%2e", "."), (r"%2f", "/"), (r"%5c", "/")):
        path = re.sub(code, plain, path, flags=re.I)
    return any(part in (".", "..") for part in re.split(r"[/\\;]", path))


def networks(value):
    found = []
    while value:
        size = {4: 4, 6: 16}.get(value[0])
        if size is None or len(value) < 2 + size:
            raise Refused("malformed")
        try:
            found.append(ipaddress.ip_network((value[2 : 2 + size], value[1])))
        except ValueError:
            raise Refused("malformed") from None
        if getattr(found[-1].network_address, "ipv4_mapped", None) and found[-1].prefixlen >= 96:
            raise Refused("malformed")
        value = value[2 + size :]
    return found


def read(caveat):
    kind, value = caveat[0], caveat[2:]
    if kind == TENANT:
        if not 1 <= len(value) <= 128:
            raise Refused("malformed")
        return kind, visible(value)
    if kind == PATH:
        path = visible(value)
        if not path.startswith("/") or set("?#") & set(path) or wanders(path):
            raise Refused("malformed")
        return kind, path
    if kind in (METHODS, SCOPES):
        if kind == METHODS and not value:
            raise Refused("malformed")
        return kind, names(value)
    if kind in (EXPIRES, NOT_BEFORE):
        if len(value) != 8:
            raise Refused("malformed")
        return kind, struct.unpack(">Q", value)[0]
    if kind == NETWORKS:
        if not value:
            raise Refused("malformed")
        return kind, networks(value)
    if kind == CLASS:
        if len(value) != 1 or value[0] not in CLASSES:
            raise Refused("malformed")
        return kind, value[0]
    if kind == NODES:
        if not value or len(value) % 32:
            raise Refused("malformed")
        return kind, [value[at : at + 32].hex() for at in range(0, len(value), 32)]
    if kind == CHANNEL:
        if len(value) != 32:
            raise Refused("malformed")
        return kind, value.hex()
    if kind in (PUBLISH, SUBSCRIBE):
        listed = value.decode("ascii", "replace").split(",")
        if len(listed) > 16 or not all(is_pattern(one) for one in listed):
            raise Refused("malformed")
        return kind, listed
    raise Refused("unknown_caveat")


def is_pattern(text):
    tokens = text.split(".")
    good = all(token == "*" or TOPIC_TOKEN.match(token) for token in tokens[:-1])
    return 1 <= len(text) <= 128 and good and (tokens[-1] in ("*", ">") or bool(TOPIC_TOKEN.match(tokens[-1])))


def means_all(wide, narrow):
    """Whether a pattern means every topic that another one means; a topic is a pattern too."""
    wide, narrow = wide.split("."), narrow.split(".")
    for at, token in enumerate(wide):
        if at == len(narrow):
            return False
        if token == ">":
            return True
        if token != narrow[at] and not (token == "*" and narrow[at] != ">"):
            return False
    return len(wide) == len(narrow)


def authenticate(token, keys, revoked, now):
    header, caveats, tag = split(token)
    ring = dict(derived(bytes.fromhex(key)) for key in keys)
    link = ring.get(header[2:10])
    if link is None:
        raise Refused("unknown_key")
    for message in messages(header, caveats):
        link = mac(link, message)
    if not hmac.compare_digest(link, tag):
        raise Refused("forged")
    if header[10:26].hex() in revoked:
        raise Refused("revoked")
    bearer = {"tenant": None, "class": header[1], "id": header[10:26].hex(), "expires": None}
    scopes, conditions = names(header[28:]), []
    for caveat in caveats:
        kind, value = read(caveat)
        conditions.append((kind, value))
        if kind == CLASS:
            bearer["class"] = min(bearer["class"], value)
        if kind == SCOPES:
            scopes = [scope for scope in scopes if scope in value]
        if kind == EXPIRES:
            if now >= value:
                raise Refused("expired")
            bearer["expires"] = min(value, bearer["expires"] or value)
        if kind == NOT_BEFORE and now < value:
            raise Refused("not_yet")
        if kind == TENANT:
            if bearer["tenant"] not in (None, value):
                raise Refused("wrong_tenant")
            bearer["tenant"] = value
    bearer.update({"class": CLASSES[bearer["class"]], "scopes": scopes})
    return bearer, conditions


def covers(prefix, path):
    prefix = prefix[:-1] if prefix.endswith("/") else prefix
    return path.startswith("/") and (path + "/").startswith(prefix + "/") and not wanders(path)


def authorize(bearer, conditions, request):
    ip = request["ip"] and ipaddress.ip_address(request["ip"])
    ip = getattr(ip, "ipv4_mapped", None) or ip
    for kind, value in conditions:
        if kind == TENANT and request.get("tenant") not in (None, value):
            raise Refused("wrong_tenant")
        if kind == PATH and not covers(value, request["path"]):
            raise Refused("wrong_path")
        if kind == METHODS and request["method"] not in value:
            raise Refused("wrong_method")
        if kind == NETWORKS and not any(ip and ip.version == net.version and ip in net for net in value):
            raise Refused("wrong_address")
        if kind == NODES and request.get("node") not in value:
            raise Refused("wrong_node")
        if kind == CHANNEL and request.get("channel") != value:
            raise Refused("wrong_channel")
    for right, kind in (("publish", PUBLISH), ("subscribe", SUBSCRIBE)):
        if request.get(right) is None:
            continue
        if "topics." + right not in bearer["scopes"]:
            raise Refused("wrong_scope")
        if not all(any(means_all(one, request[right]) for one in value) for found, value in conditions if found == kind):
            raise Refused("wrong_topic")
    if request.get("scope") is not None and request["scope"] not in bearer["scopes"]:
        raise Refused("wrong_scope")


def judged(vector):
    """What this implementation says of a vector."""
    request = vector["request"]
    try:
        bearer, conditions = authenticate(vector["token"], vector["keys"], vector["revoked"], request["now"])
        authorize(bearer, conditions, request)
    except Refused as refused:
        return {"verdict": str(refused), "status": 403 if str(refused) in FORBIDDEN else 401}
    return {"verdict": "ok", "bearer": bearer}


def check(path):
    with open(path, encoding="utf-8") as file:
        vectors = json.load(file)
    for vector in vectors:
        expected = {key: vector[key] for key in ("verdict", "status", "bearer") if key in vector}
        if judged(vector) != expected:
            sys.exit(f"{vector['name']}: {judged(vector)} instead of {expected}")
    print(f"{len(vectors)} vectors agree")


# What follows makes the vectors.

KEY, OLD, OTHER = (bytes(range(start, start + 32)) for start in (0, 32, 64))
ID = bytes.fromhex("000102030405060708090a0b0c0d0e0f")
NOW = 1_800_000_000


def caveat(kind, value):
    return bytes([kind, len(value)]) + value


def moment(seconds):
    return struct.pack(">Q", seconds)


def network(text):
    parsed = ipaddress.ip_network(text)
    return bytes([parsed.version, parsed.prefixlen]) + parsed.network_address.packed


def token(caveats=(), key=KEY, grant=1, scopes=b"", version=1, added=0):
    """A token whose last `added` caveats were added after the minting."""
    key_id, link = derived(key)
    header = bytes([version, grant]) + key_id + ID + bytes([len(caveats) - added, len(scopes)]) + scopes
    for message in messages(header, list(caveats)):
        link = mac(link, message)
    return "og1." + b64(header + b"".join(caveats) + link)


def altered(text, at, to):
    data = bytearray(base64.urlsafe_b64decode(text[4:] + "=" * (-len(text) % 4)))
    data[at] ^= to
    return "og1." + b64(bytes(data))


def cases():
    tenant = caveat(TENANT, b"acme")
    path = caveat(PATH, b"/api")
    methods = caveat(METHODS, b"GET,POST")
    expires = caveat(EXPIRES, moment(NOW + 3600))
    nets = caveat(NETWORKS, network("10.0.0.0/8") + network("2001:db8::/32"))
    full = [tenant, path, methods, expires, nets]
    usual = {"path": "/api/items", "method": "GET", "ip": "10.1.2.3"}

    yield "no caveats: everything is covered", token(), {}
    yield "tenant, path, methods, expiry and addresses, all met", token(full), usual
    yield "the same, each added after the minting", token(full, added=5), usual
    yield "the same, two of them added", token(full, added=2), usual
    yield "an IPv6 client", token(full), usual | {"ip": "2001:db8::7"}
    yield "an IPv4-mapped client", token(full), usual | {"ip": "::ffff:10.9.9.9"}
    yield "made with an older key of the ring", token(full, key=OLD), usual
    yield "made with a key that is not in the ring", token(full, key=OTHER), usual
    yield "revoked", token(full), usual | {"revoked": [ID.hex()]}
    yield "another is revoked", token(full), usual | {"revoked": ["ff" * 16]}
    yield "the last second", token(full), usual | {"now": NOW + 3599}
    yield "expired", token(full), usual | {"now": NOW + 3600}
    yield "two expiries: the earlier counts", token([expires, caveat(EXPIRES, moment(NOW + 60))], added=1), {"now": NOW + 60}
    yield "an expiry cannot be put off", token([caveat(EXPIRES, moment(NOW)), expires], added=1), {}
    yield "at its first second", token([caveat(NOT_BEFORE, moment(NOW))]), {}
    yield "not yet", token([caveat(NOT_BEFORE, moment(NOW + 1))]), {}
    yield "the prefix itself", token([path]), {"path": "/api"}
    yield "half a segment", token([path]), {"path": "/apix"}
    yield "a prefix with a slash", token([caveat(PATH, b"/api/")]), {"path": "/api"}
    yield "out of the prefix", token([path]), {"path": "/api/../admin"}
    yield "out of the prefix, encoded", token([path]), {"path": "/api/%2e%2E/admin"}
    yield "out of the prefix, with an encoded slash", token([path]), {"path": "/api/..%2Fadmin"}
    yield "two prefixes, one in the other", token([path, caveat(PATH, b"/api/items")]), {"path": "/api/items/1"}
    yield "two prefixes that exclude each other", token([path, caveat(PATH, b"/admin")], added=1), {"path": "/admin"}
    yield "no path at all", token([caveat(PATH, b"/")]), {"path": ""}
    yield "another method", token(full), usual | {"method": "DELETE"}
    yield "a method in other letters", token(full), usual | {"method": "get"}
    yield "two lists of methods: only what is in both", token([methods, caveat(METHODS, b"POST,PUT")], added=1), {"method": "POST"}
    yield "two lists of methods: not in both", token([methods, caveat(METHODS, b"POST,PUT")], added=1), {"method": "PUT"}
    yield "another address", token(full), usual | {"ip": "11.0.0.1"}
    yield "no address", token(full), usual | {"ip": None}
    yield "the tenant that is asked for", token([tenant]), {"tenant": "acme"}
    yield "another tenant is asked for", token([tenant]), {"tenant": "umbra"}
    yield "any tenant", token(), {"tenant": "umbra"}
    yield "the same tenant twice", token([tenant, tenant]), {}
    yield "two tenants", token([tenant, caveat(TENANT, b"umbra")], added=1), {}
    yield "a granted scope", token(scopes=b"rewarder.run,overlay.join"), {"scope": "overlay.join"}
    yield "a scope that was not granted", token(scopes=b"rewarder.run"), {"scope": "overlay.join"}
    yield "a caveat keeps one scope", token([caveat(SCOPES, b"overlay.join,x")], scopes=b"rewarder.run,overlay.join"), {"scope": "overlay.join"}
    yield "a caveat took the scope", token([caveat(SCOPES, b"")], scopes=b"rewarder.run", added=1), {"scope": "rewarder.run"}
    yield "a caveat grants nothing", token([caveat(SCOPES, b"rewarder.run")], added=1), {"scope": "rewarder.run"}
    yield "internal", token(grant=2), {}
    yield "internal, lowered", token([caveat(CLASS, b"\2"), caveat(CLASS, b"\1"), caveat(CLASS, b"\2")], grant=2, added=2), {}
    yield "a caveat does not raise the class", token([caveat(CLASS, b"\2")], added=1), {}
    nodes, channel = caveat(NODES, b"\xa1" * 32 + b"\xb2" * 32), caveat(CHANNEL, b"\xc3" * 32)
    here = {"node": "b2" * 32, "channel": "c3" * 32}
    yield "one of the nodes that it names", token([nodes]), here
    yield "another node", token([nodes]), here | {"node": "a2" * 32}
    yield "for nodes, and no node shows it", token([nodes]), {}
    yield "two lists of nodes: only who is in both", token([nodes, caveat(NODES, b"\xb2" * 32)], added=1), here | {"node": "a1" * 32}
    yield "on its connection", token([nodes, channel], added=1), here
    yield "on another connection", token([nodes, channel], added=1), here | {"channel": "c4" * 32}
    yield "bound, and the connection is not known", token([channel], added=1), {"node": "b2" * 32}
    yield "bound, and no node shows it", token([channel], added=1), {}
    yield "seven nodes", token([caveat(NODES, b"\xb2" * 224)]), here
    yield "no node", token([caveat(NODES, b"")]), here
    yield "half a node", token([caveat(NODES, b"\xb2" * 48)]), here
    yield "a channel of 31 bytes", token([caveat(CHANNEL, b"\xc3" * 31)]), here
    both = b"topics.publish,topics.subscribe"
    chat = [caveat(PUBLISH, b"chat.*,news"), caveat(SUBSCRIBE, b"chat.>")]
    for topic in ("chat.room", "news", "chat", "chat.room.low", "news.local"):
        yield f"publishing in {topic}", token(chat, scopes=both), {"publish": topic}
    for topic in ("chat.room.low", "chat.*", "chat.>", "chat", "*.room", ">", "news"):
        yield f"subscribing to {topic}", token(chat, scopes=both), {"subscribe": topic}
    yield "publishing without the right", token(chat, scopes=b"topics.subscribe"), {"publish": "news"}
    yield "subscribing without the right", token(chat, scopes=b"topics.publish"), {"subscribe": "chat.a"}
    yield "publishing with the right and no caveat", token(scopes=both), {"publish": "any/topic"}
    narrowed = [caveat(PUBLISH, b"chat.>"), caveat(PUBLISH, b"*.a,news")]
    yield "both lists of topics cover it", token(narrowed, scopes=both, added=1), {"publish": "chat.a"}
    yield "one list of topics covers it", token(narrowed, scopes=both, added=1), {"publish": "news"}
    yield "topics do not limit other requests", token(chat), {}
    yield "no topic", token([caveat(PUBLISH, b"")]), {}
    yield "a topic with a capital letter", token([caveat(PUBLISH, b"News")]), {}
    yield "a wildcard that is no whole token", token([caveat(SUBSCRIBE, b"a*")]), {}
    yield "an angle before the end", token([caveat(SUBSCRIBE, b"a.>.b")]), {}
    yield "sixteen patterns", token([caveat(SUBSCRIBE, b",".join([b"a"] * 16))], scopes=both), {"subscribe": "a"}
    yield "seventeen patterns", token([caveat(SUBSCRIBE, b",".join([b"a"] * 17))], scopes=both), {"subscribe": "a"}
    yield "an unknown caveat", token([tenant, caveat(99, b"x")], added=1), {}
    yield "an unknown caveat on a forged token", altered(token([caveat(99, b"x")]), -1, 1), {}

    good = token(full)
    later = token(full, added=4)
    yield "a sealed caveat was removed", without(good, path), usual
    yield "a sealed caveat was removed, and its number corrected", altered(without(good, path), 26, 5 ^ 4), usual
    yield "an added caveat was removed", without(later, path), usual
    yield "the last caveat was removed", without(later, nets), usual
    yield "two sealed caveats changed places", swapped(good, tenant, path), usual
    yield "two added caveats changed places", swapped(later, path, methods), usual
    yield "an added caveat passes for a sealed one", altered(later, 26, 1 ^ 2), usual
    yield "a sealed caveat passes for an added one", altered(good, 26, 5 ^ 4), usual
    yield "the tenant was changed", altered(good, 28 + 2, 1), usual
    yield "the id was changed", altered(good, 10, 1), usual
    yield "the class was raised", altered(token(), 1, 3), {}
    yield "the tag was changed", altered(good, -1, 128), usual
    yield "empty", "", {}
    yield "only the prefix", "og1.", {}
    yield "another prefix", "og2." + good[4:], usual
    yield "another version", token(version=2), {}
    yield "an unknown class", token(grant=3), {}
    uneven = token([caveat(TENANT, b"ab")])
    yield "padded", uneven + "==", {}
    yield "unused bits of the last character", loosened(uneven), {}
    yield "cut off", good[:-8], usual
    yield "cut off in its header", "og1." + b64(bytes([1, 1]) + bytes(40)), {}
    yield "scopes longer than the token", altered(token(), 27, 255), {}
    yield "more sealed caveats than there are", altered(token([tenant]), 26, 1 ^ 2), {}
    yield "a caveat longer than the token", token([b"\1\xff" + b"a" * 4]), {}
    yield "an empty tenant", token([caveat(TENANT, b"")]), {}
    yield "a tenant of 128 characters", token([caveat(TENANT, b"a" * 128)]), {}
    yield "a tenant of 129 characters", token([caveat(TENANT, b"a" * 129)]), {}
    yield "a tenant with a space", token([caveat(TENANT, b"a b")]), {}
    yield "a prefix without its slash", token([caveat(PATH, b"api")]), {"path": "/api"}
    yield "a prefix that leads elsewhere", token([caveat(PATH, b"/a/..")]), {"path": "/"}
    yield "no method", token([caveat(METHODS, b"")]), {}
    yield "an empty name", token([caveat(METHODS, b"GET,,PUT")]), {}
    yield "a moment of seven bytes", token([caveat(EXPIRES, moment(NOW + 9)[1:])]), {}
    yield "no network", token([caveat(NETWORKS, b"")]), {}
    yield "a network with host bits", token([caveat(NETWORKS, bytes([4, 8, 10, 0, 0, 1]))]), {}
    yield "a network of 33 bits", token([caveat(NETWORKS, bytes([4, 33, 10, 0, 0, 1]))]), {}
    yield "an IPv4 network in IPv6's clothes", token([caveat(NETWORKS, network("::ffff:10.0.0.0/104"))]), {"ip": "10.0.0.1"}
    yield "a mapped client is in no IPv6 network", token([caveat(NETWORKS, network("::/0"))]), {"ip": "::ffff:10.0.0.1"}
    yield "half a network", token([caveat(NETWORKS, bytes([4, 8, 10, 0, 0]))]), {}
    yield "a network of an unknown family", token([caveat(NETWORKS, bytes([5, 8, 10, 0, 0, 0]))]), {}
    yield "a class of two bytes", token([caveat(CLASS, b"\1\1")]), {}
    yield "sixteen caveats", token([tenant] * 16, added=15), {}
    yield "seventeen caveats", token([tenant] * 17, added=16), {}
    longest = [caveat(TENANT, b"a" * 128)] * 5 + [caveat(SCOPES, b"b" * 51)]
    yield "1024 characters", token(longest + [caveat(SCOPES, b"")]), {}
    yield "1027 characters", token(longest + [caveat(SCOPES, b"xx")]), {}


def without(text, removed):
    header, caveats, tag = split(text)
    return "og1." + b64(header + b"".join(c for c in caveats if c != removed) + tag)


def swapped(text, one, two):
    header, caveats, tag = split(text)
    places = {one: two, two: one}
    return "og1." + b64(header + b"".join(places.get(c, c) for c in caveats) + tag)


def loosened(text):
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    assert len(text) % 4 != 0, "has no unused bits"
    return text[:-1] + alphabet[alphabet.index(text[-1]) + 1]


def write(path):
    vectors = []
    for name, text, request in cases():
        revoked = request.get("revoked", [])
        plain = {"path": "/", "method": "GET", "ip": "192.0.2.1", "now": NOW} | request
        plain.pop("revoked", None)
        vector = {"name": name, "keys": [KEY.hex(), OLD.hex()], "revoked": revoked, "token": text, "request": plain}
        vectors.append(vector | judged(vector))
    with open(path, "w", encoding="utf-8") as file:
        file.write("[\n" + ",\n".join(json.dumps(vector) for vector in vectors) + "\n]\n")


if __name__ == "__main__":
    {"check": check, "write": write}[sys.argv[1]](sys.argv[2])
