# SPDX-License-Identifier: Apache-2.0
"""The words of the NBD protocol that a reader needs, and their shapes."""

import struct

# Handshake.
INIT_MAGIC = b'NBDMAGIC'
OPTION_MAGIC = b'IHAVEOPT'
OPTION_REPLY_MAGIC = 0x3E889045565A9
GREETING = struct.Struct('>8s8sH')
CLIENT_FLAGS = struct.Struct('>I')
OPTION = struct.Struct('>8sII')
OPTION_REPLY = struct.Struct('>QIII')

FLAG_FIXED_NEWSTYLE = 1
FLAG_NO_ZEROES = 2

OPT_GO = 7
OPT_STRUCTURED_REPLY = 8
OPT_SET_META_CONTEXT = 10

REP_ACK = 1
REP_INFO = 3
REP_META_CONTEXT = 4
REP_FLAG_ERROR = 1 << 31

INFO_EXPORT = 0
INFO_BLOCK_SIZE = 3

#: The context that tells holes and zeroes from data.
BASE_ALLOCATION = b'base:allocation'
STATE_ZERO = 2

# Transmission.
REQUEST_MAGIC = 0x25609513
SIMPLE_REPLY_MAGIC = 0x67446698
STRUCTURED_REPLY_MAGIC = 0x668E33EF
REQUEST = struct.Struct('>IHHQQI')
MAGIC = struct.Struct('>I')
STRUCTURED_REPLY = struct.Struct('>HHQI')     # after the magic

CMD_READ = 0
CMD_DISC = 2
CMD_BLOCK_STATUS = 7

REPLY_FLAG_DONE = 1
REPLY_OFFSET_DATA = 1
REPLY_OFFSET_HOLE = 2
REPLY_BLOCK_STATUS = 5
REPLY_ERROR_BIT = 1 << 15

#: Largest payload that every server takes without saying its own limit.
MAX_READ = 32 * 1024 * 1024
#: Longest range that one question for block status covers here.
MAX_STATUS = 1 << 30
#: Longest answer to that: QEMU gives at most so many extents of 8 bytes
#: (NBD_MAX_BLOCK_STATUS_EXTENTS in its nbd/server.c), behind 4 bytes.
MAX_STATUS_REPLY = 4 + 8 * (1 << 17)
#: A server has no reason to send option replies or chunks of other kinds
#: that are longer.
MAX_SMALL = 1 << 20


class NBDError(Exception):
    """The export could not be read; the text says what and where."""


def option(number: int, data: bytes = b'') -> bytes:
    """Make the message for one option of the handshake."""
    return OPTION.pack(OPTION_MAGIC, number, len(data)) + data


def go(export: str) -> bytes:
    """Make the option that opens an export and asks for its limits."""
    name = export.encode()
    return option(OPT_GO, struct.pack('>I', len(name)) + name
                  + struct.pack('>HH', 1, INFO_BLOCK_SIZE))


def set_meta_context(export: str) -> bytes:
    """Make the option that asks for allocation to be told."""
    name = export.encode()
    return option(
        OPT_SET_META_CONTEXT, struct.pack('>I', len(name)) + name
        + struct.pack('>II', 1, len(BASE_ALLOCATION)) + BASE_ALLOCATION)


def request(command: int, cookie: int, offset: int = 0,
            length: int = 0) -> bytes:
    """Make a request of the transmission phase."""
    return REQUEST.pack(REQUEST_MAGIC, 0, command, cookie, offset, length)
