# SPDX-License-Identifier: Apache-2.0
"""Which dialect a path is of: its first word tells."""

from collections.abc import Mapping
import enum
import types


class Dialect(enum.Enum):
    """A way of speaking that clients know already.

    ``NONE`` is for what belongs to all or to no one: the root document,
    the health check, boot scripts.
    """

    NONE = enum.auto()
    COMPUTE = enum.auto()
    BAREMETAL = enum.auto()


_MOUNTS: Mapping[str, Dialect] = types.MappingProxyType({
    'v2.1': Dialect.COMPUTE,
    'v2': Dialect.COMPUTE,
    'v1': Dialect.BAREMETAL,
})


def of(path: str) -> Dialect:
    """Tell of which dialect a path is.

    :param path: begins with a slash.
    """
    return _MOUNTS.get(path[1:].partition('/')[0], Dialect.NONE)
