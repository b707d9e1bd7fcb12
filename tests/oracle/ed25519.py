"""Ed25519 signatures (RFC 8032), enough to sign the policies of made-up epochs. Not for secrets: it is not hardened."""

import hashlib

P = 2**255 - 19
Q = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P
BASE_Y = 4 * pow(5, P - 2, P) % P


def recovered_x(y):
    square = (y * y - 1) * pow(D * y * y + 1, P - 2, P)
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * pow(2, (P - 1) // 4, P) % P
    return P - x if x & 1 else x


BASE_X = recovered_x(BASE_Y)
BASE = (BASE_X, BASE_Y, 1, BASE_X * BASE_Y % P)


def add(a, b):
    e, f = (a[1] - a[0]) * (b[1] - b[0]) % P, (a[1] + a[0]) * (b[1] + b[0]) % P
    g, h = 2 * a[3] * b[3] * D % P, 2 * a[2] * b[2] % P
    e, f, g, h = f - e, h - g, h + g, f + e
    return (e * f % P, g * h % P, f * g % P, e * h % P)


def times(number, point):
    result = (0, 1, 1, 0)
    while number:
        if number & 1:
            result = add(result, point)
        point, number = add(point, point), number >> 1
    return result


def packed(point):
    inverse = pow(point[2], P - 2, P)
    x, y = point[0] * inverse % P, point[1] * inverse % P
    return (y | (x & 1) << 255).to_bytes(32, "little")


def number(data):
    return int.from_bytes(hashlib.sha512(data).digest(), "little")


class Key:
    def __init__(self, seed):
        hashed = hashlib.sha512(seed).digest()
        scalar = int.from_bytes(hashed[:32], "little")
        self.scalar = (scalar & ((1 << 254) - 8)) | 1 << 254
        self.prefix = hashed[32:]
        self.public = packed(times(self.scalar, BASE))

    def sign(self, message):
        r = number(self.prefix + message) % Q
        point = packed(times(r, BASE))
        s = (r + number(point + self.public + message) % Q * self.scalar) % Q
        return point + s.to_bytes(32, "little")
