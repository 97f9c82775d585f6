# SPDX-License-Identifier: Apache-2.0
"""How much of a request has arrived: a pure function of its first bytes.

A thread that serves requests is lent to a connection only when it need not
wait for the client any more; this tells when.
"""

import enum
import re

#: Bytes that the first line and the headers may have.
HEAD_MAX = 64 * 1024
# Of a line between chunks.
_LINE_MAX = 256

# Blanks before the colon are not allowed, but taken by cheroot.
_LENGTH = re.compile(rb'\r\ncontent-length[ \t]*:([^\r]*)', re.IGNORECASE)
_CHUNKED = re.compile(rb'\r\ntransfer-encoding[ \t]*:[^\r]*chunked',
                      re.IGNORECASE)
_INVITED = re.compile(rb'\r\nexpect[ \t]*:[ \t]*100-continue', re.IGNORECASE)
_SIZE = re.compile(rb'([0-9a-f]{1,16})[ \t]*(?:;[^\r\n]*)?\r\n',
                   re.IGNORECASE)
# Line ends that are none, folded lines and control characters: what one
# reader takes for a header, another may not.
_MALFORMED = re.compile(
    rb'(?<!\r)\n|\r(?!\n|\Z)|\r\n[ \t]|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]')
_END = b'\r\n\r\n'


class Arrival(enum.Enum):
    """What is known of a request.

    ``WHOLE`` is one that can be read to its end without waiting.
    """

    PART = enum.auto()
    WHOLE = enum.auto()
    MALFORMED = enum.auto()
    HEAD_TOO_LARGE = enum.auto()
    BODY_TOO_LARGE = enum.auto()


def judge(seen: bytes, body_max: int) -> Arrival:
    """Judge a request by what of it has arrived.

    :param seen: its first bytes.
    :param body_max: bytes that its body may have.
    """
    end = seen.find(_END)
    head = seen[:end + 2] if end >= 0 else seen
    if _MALFORMED.search(head):
        return Arrival.MALFORMED
    if len(head) > HEAD_MAX:
        return Arrival.HEAD_TOO_LARGE
    if end < 0:
        return Arrival.PART
    start = end + len(_END)
    lengths = {value.strip() for value in _LENGTH.findall(head)}
    if _CHUNKED.search(head):
        if lengths:
            return Arrival.MALFORMED
        return _judge_chunks(seen, start, body_max)
    if len(lengths) > 1 or not all(one.isdigit() for one in lengths):
        return Arrival.MALFORMED
    digits = lengths.pop() if lengths else b'0'
    # Python refuses to convert a very long number.
    if len(digits) > 18 or int(digits) > body_max:
        return Arrival.BODY_TOO_LARGE
    return (Arrival.WHOLE if len(seen) >= start + int(digits)
            else Arrival.PART)


def is_invited(seen: bytes) -> bool:
    """Tell whether the client waits for a word before it sends the body."""
    end = seen.find(_END)
    return end >= 0 and _INVITED.search(seen[:end]) is not None


def most(body_max: int) -> int:
    """Give the bytes that have to be looked at to judge any request.

    The lines between chunks may take as much again as the body.
    """
    return HEAD_MAX + len(_END) + 2 * (body_max + _LINE_MAX)


def _judge_chunks(seen: bytes, start: int, body_max: int) -> Arrival:
    """Walk over the chunks of a body that begins at start."""
    place, length = start, 0
    while True:
        if place - start > 2 * body_max or length > body_max:
            return Arrival.BODY_TOO_LARGE
        line = _SIZE.match(seen, place)
        if line is None:
            if b'\r\n' in seen[place:] or len(seen) - place > _LINE_MAX:
                return Arrival.MALFORMED
            return Arrival.PART
        size = int(line[1], 16)
        if size == 0:
            # Behind it come trailers, or nothing, and an empty line.
            return (Arrival.WHOLE if seen.find(_END, line.end() - 2) >= 0
                    else Arrival.PART)
        length += size
        place = line.end() + size + 2
        if length <= body_max and place > len(seen):
            return Arrival.PART
        if seen[place - 2:place] not in (b'', b'\r\n'):
            return Arrival.MALFORMED
