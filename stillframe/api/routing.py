# SPDX-License-Identifier: Apache-2.0
"""From a path to who answers it.

A table of resources instead of a walk over attributes of objects: what is
not in the table cannot be reached, and one look-up finds it.
"""

from collections.abc import Callable
from collections.abc import Iterable
from typing import Any

from stillframe.api import dialects
from stillframe.api import errors

#: Where the compute dialect is mounted; True: without microversions.
COMPUTE_MOUNTS = {'v2.1': False, 'v2': True}

#: First words of the resources of the compute dialect. Another word right
#: before one of them is a project id.
COMPUTE_RESOURCES = frozenset((
    'servers', 'os-services', 'os-assisted-volume-snapshots'))

#: First words below the bare-metal mount that need no identity: a ramdisk
#: has none, and is known by its MAC addresses and its token.
BAREMETAL_PUBLIC = frozenset(('', 'lookup', 'heartbeat'))

# Stands for any one segment in a path of the table.
_ANY = '{}'

# Where a node of the tree keeps its handlers; no segment is empty.
_METHODS = ''


class Table:
    """Finds the handler of a path and a method."""

    def __init__(self, routes: Iterable[tuple[str, str, Callable]]):
        """Build the table.

        :param routes: method, path (``servers/{}/action``), handler.
        """
        self._tree: dict[str | None, Any] = {}
        for method, path, handler in routes:
            node = self._tree
            for segment in path.split('/'):
                node = node.setdefault(
                    None if segment == _ANY else segment, {})
            node.setdefault(_METHODS, {})[method] = handler

    def find(self, method: str, segments: list[str]
             ) -> tuple[Callable, list[str]]:
        """Give the handler, and the segments that stand for themselves.

        :raises NoSuchPath: there is none.
        :raises NoSuchMethod: there is, but not with this method.
        """
        node: dict[str | None, Any] | None = self._tree
        values = []
        for segment in segments:
            if node is None or segment == _METHODS:
                break
            if segment not in node:
                values.append(segment)
            node = node.get(segment, node.get(None))
        else:
            methods = node and node.get(_METHODS)
            if methods:
                return self._of_method(methods, method), values
        raise errors.NoSuchPath

    def _of_method(self, methods: dict[str, Callable], method: str
                   ) -> Callable:
        handler = methods.get('GET' if method == 'HEAD' else method)
        if handler is None:
            raise errors.NoSuchMethod(method, methods)
        return handler


def split(path: str) -> tuple[str, str | None, list[str]]:
    """Take a path of the compute dialect apart.

    :param path: begins with a mount: ``/v2.1/0123abcd/servers/``.
    :return: mount, project id or None, the rest; without the empty segment
        behind a final slash.
    """
    segments = path.split('/')[1:]
    if segments[-1] == '':
        segments.pop()
    if (len(segments) > 2 and segments[1] not in COMPUTE_RESOURCES
            and segments[2] in COMPUTE_RESOURCES):
        return segments[0], segments[1], segments[2:]
    return segments[0], None, segments[1:]


def segments(path: str) -> list[str]:
    """Take a path of the bare-metal dialect apart.

    :param path: begins with a mount: ``/v1/nodes/``.
    :return: what is behind the mount; without the empty segment behind a
        final slash.
    """
    found = path.split('/')[2:]
    if found and found[-1] == '':
        found.pop()
    return found


def project_in(path: str) -> str | None:
    """Give the project id in a path, if there is one."""
    if (dialects.of(path) is not dialects.Dialect.COMPUTE
            or is_public(path)):
        return None
    return split(path)[1]


def is_public(path: str) -> bool:
    """Tell whether a path needs no identity.

    It is of a version document, or of what cannot have one.
    """
    dialect = dialects.of(path)
    if dialect is dialects.Dialect.NONE:
        return True
    rest = path[1:].partition('/')[2]
    if dialect is dialects.Dialect.COMPUTE:
        return rest.strip('/') == ''
    return rest.lstrip('/').partition('/')[0] in BAREMETAL_PUBLIC
