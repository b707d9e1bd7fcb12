"""RFC 8785 for documents of record: strings, booleans, null, integers from 0 to 2^53 - 1, lists and maps."""

MAX_INT = 2**53 - 1
SHORT = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}


def text(value):
    if value is None:
        return "null"
    if value is True or value is False:
        return "true" if value else "false"
    if isinstance(value, int):
        if not 0 <= value <= MAX_INT:
            raise ValueError(f"{value} is no integer that JSON carries exactly")
        return str(value)
    if isinstance(value, str):
        return '"' + "".join(escaped(c) for c in value) + '"'
    if isinstance(value, list):
        return "[" + ",".join(text(item) for item in value) + "]"
    if isinstance(value, dict):
        names = sorted(value, key=lambda name: name.encode("utf-16-be"))
        return "{" + ",".join(text(name) + ":" + text(value[name]) for name in names) + "}"
    raise ValueError(f"no {type(value)} in documents of record")


def escaped(character):
    if character in SHORT:
        return SHORT[character]
    return f"\\u{ord(character):04x}" if ord(character) < 0x20 else character


def dump(value):
    return text(value).encode()
