# SPDX-License-Identifier: Apache-2.0
"""A self-signed certificate for the address that an agent is called at.

Written in DER by hand (X.690, RFC 5280, RFC 5915), with all that a strict
reader asks of one that is its own authority. It is trusted by being sent in
each heartbeat, under the agent's token; its name means nothing.
"""

import base64
import dataclasses
import hashlib
import ipaddress
import secrets
import time

from stillframe.agent import p256

#: Seconds that the reader's clock may be behind.
CLOCK_SKEW = 86400
VALID_DAYS = 90

_EC_PUBLIC_KEY = '1.2.840.10045.2.1'
_P256 = '1.2.840.10045.3.1.7'
_ECDSA_WITH_SHA256 = '1.2.840.10045.4.3.2'
_COMMON_NAME = '2.5.4.3'
_SUBJECT_KEY = '2.5.29.14'
_KEY_USAGE = '2.5.29.15'
_ALTERNATIVE_NAME = '2.5.29.17'
_BASIC_CONSTRAINTS = '2.5.29.19'
_AUTHORITY_KEY = '2.5.29.35'

_BOOLEAN, _INTEGER, _BITS, _OCTETS = 0x01, 0x02, 0x03, 0x04
_OBJECT, _UTF8, _GENERAL_TIME = 0x06, 0x0c, 0x18
_SEQUENCE, _SET = 0x30, 0x31


@dataclasses.dataclass(frozen=True)
class Certificate:
    """A certificate and its key, both PEM texts."""

    pem: str
    key_pem: str = dataclasses.field(repr=False)


def _der(tag: int, *parts: bytes) -> bytes:
    content = b''.join(parts)
    length = len(content)
    if length < 0x80:
        return bytes((tag, length)) + content
    octets = length.to_bytes((length.bit_length() + 7) // 8)
    return bytes((tag, 0x80 | len(octets))) + octets + content


def _integer(number: int) -> bytes:
    # One bit more than the number has, so that it stays positive.
    return _der(_INTEGER, number.to_bytes(number.bit_length() // 8 + 1))


def _object(dotted: str) -> bytes:
    first, second, *rest = map(int, dotted.split('.'))
    content = bytearray([first * 40 + second])
    for number in rest:
        septets = [number & 0x7f]
        while number := number >> 7:
            septets.insert(0, 0x80 | number & 0x7f)
        content += bytes(septets)
    return _der(_OBJECT, bytes(content))


def _bits(content: bytes, unused: int = 0) -> bytes:
    return _der(_BITS, bytes((unused,)), content)


def _time(seconds: float) -> bytes:
    # RFC 5280 wants the short form until 2049; the long one is read by all.
    when = time.gmtime(seconds)
    if when.tm_year < 2050:
        return _der(0x17, time.strftime('%y%m%d%H%M%SZ', when).encode())
    return _der(_GENERAL_TIME, time.strftime('%Y%m%d%H%M%SZ', when).encode())


def _name(common_name: str) -> bytes:
    return _der(_SEQUENCE, _der(_SET, _der(
        _SEQUENCE, _object(_COMMON_NAME),
        _der(_UTF8, common_name.encode()))))


def _extension(dotted: str, value: bytes, critical: bool) -> bytes:
    return _der(_SEQUENCE, _object(dotted),
                _der(_BOOLEAN, b'\xff') if critical else b'',
                _der(_OCTETS, value))


def _alternative_name(host: str) -> bytes:
    try:
        address = ipaddress.ip_address(host).packed
    except ValueError:
        return _der(_SEQUENCE, _der(0x82, host.encode('idna')))
    return _der(_SEQUENCE, _der(0x87, address))


def _extensions(host: str, public: bytes) -> bytes:
    name_of_key = hashlib.sha256(public).digest()[:20]
    return _der(0xa3, _der(
        _SEQUENCE,
        # It may sign itself and nothing else.
        _extension(_BASIC_CONSTRAINTS, _der(
            _SEQUENCE, _der(_BOOLEAN, b'\xff'), _integer(0)), True),
        # digitalSignature and keyCertSign
        _extension(_KEY_USAGE, _bits(b'\x84', unused=2), True),
        _extension(_ALTERNATIVE_NAME, _alternative_name(host), False),
        _extension(_SUBJECT_KEY, _der(_OCTETS, name_of_key), False),
        _extension(_AUTHORITY_KEY, _der(
            _SEQUENCE, _der(0x80, name_of_key)), False)))


def _pem(kind: str, content: bytes) -> str:
    text = base64.b64encode(content).decode()
    lines = [text[start:start + 64] for start in range(0, len(text), 64)]
    return '\n'.join(
        (f'-----BEGIN {kind}-----', *lines, f'-----END {kind}-----', ''))


def make(host: str, now: float | None = None) -> Certificate:
    """Make a key and a certificate for it.

    :param host: the address or name that the agent is called at.
    :param now: seconds since 1970; the clock's if not given.
    """
    now = time.time() if now is None else now
    key = p256.new_key()
    public = p256.public_key(key)
    algorithm = _der(_SEQUENCE, _object(_ECDSA_WITH_SHA256))
    name = _name('stillframe-agent')
    to_sign = _der(
        _SEQUENCE,
        _der(0xa0, _integer(2)),                          # version 3
        _integer(secrets.randbits(159) | 1),
        algorithm,
        name,
        _der(_SEQUENCE, _time(now - CLOCK_SKEW),
             _time(now + VALID_DAYS * 86400)),
        name,
        _der(_SEQUENCE,
             _der(_SEQUENCE, _object(_EC_PUBLIC_KEY), _object(_P256)),
             _bits(public)),
        _extensions(host, public))
    signature = _der(_SEQUENCE, *map(_integer, p256.sign(key, to_sign)))
    whole = _der(_SEQUENCE, to_sign, algorithm, _bits(signature))
    private = _der(
        _SEQUENCE, _integer(1), _der(_OCTETS, key.to_bytes(p256.SIZE)),
        _der(0xa0, _object(_P256)), _der(0xa1, _bits(public)))
    return Certificate(_pem('CERTIFICATE', whole),
                       _pem('EC PRIVATE KEY', private))
