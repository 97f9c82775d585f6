# SPDX-License-Identifier: Apache-2.0
"""The elliptic curve P-256: make a key, sign once.

Python's standard library has TLS but nothing that makes a key or a
certificate, and a ramdisk need not have the ``openssl`` program. This is as
much as a self-signed certificate takes: about 30 ms.

Not for anything else: the time that it takes depends on the key. That is
harmless where it is used, since a key signs one certificate, its own, on a
machine that runs nothing but the agent; TLS itself is OpenSSL's. The curve
is that of NIST SP 800-186, the signature that of FIPS 186-5.
"""

import hashlib
import secrets

SIZE = 32                     # bytes of a number

_P = 2**256 - 2**224 + 2**192 + 2**96 - 1
_N = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551
_A = -3
_G = (0x6b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296,
      0x4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5)

#: A point of the curve; None is the one at infinity.
Point = tuple[int, int] | None


def _add(one: Point, other: Point) -> Point:
    if one is None or other is None:
        return one or other
    (x1, y1), (x2, y2) = one, other
    if x1 == x2:
        if (y1 + y2) % _P == 0:
            return None
        slope = (3 * x1 * x1 + _A) * pow(2 * y1, -1, _P)
    else:
        slope = (y2 - y1) * pow(x2 - x1, -1, _P)
    x3 = (slope * slope - x1 - x2) % _P
    return x3, (slope * (x1 - x3) - y1) % _P


def multiply(number: int, point: Point = _G) -> Point:
    """Add a point to itself so many times.

    :param point: of the curve; the generator if not given.
    """
    total: Point = None
    while number:
        if number & 1:
            total = _add(total, point)
        point = _add(point, point)
        number >>= 1
    return total


def new_key() -> int:
    """Make a private key from the system's randomness."""
    return secrets.randbelow(_N - 1) + 1


def public_key(key: int) -> bytes:
    """Give the public key as an uncompressed point, 65 bytes."""
    point = multiply(key)
    assert point is not None  # noqa: S101  # 0 < key < order of the curve
    return b'\4' + point[0].to_bytes(SIZE) + point[1].to_bytes(SIZE)


def sign(key: int, message: bytes) -> tuple[int, int]:
    """Sign with SHA-256.

    :return: the two numbers of an ECDSA signature.
    """
    digest = int.from_bytes(hashlib.sha256(message).digest())
    while True:
        nonce = new_key()
        point = multiply(nonce)
        assert point is not None  # noqa: S101  # as above
        r = point[0] % _N
        s = pow(nonce, -1, _N) * (digest + r * key) % _N
        if r and s:
            return r, s
