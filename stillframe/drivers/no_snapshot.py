# SPDX-License-Identifier: Apache-2.0
"""The snapshot interface of nodes that shall have none."""

from collections.abc import Mapping
from typing import Any
from typing import NoReturn

from stillframe.drivers import base
from stillframe.drivers import errors


class NoSnapshot(base.SnapshotInterface):
    """Says in each call that there is no such thing."""

    def validate(self, node: base.Node) -> None:
        """Say that it cannot be done.

        :raises UnsupportedInterface: always.
        """
        _refuse(node)

    def start(self, node: base.Node, order: Mapping[str, Any]) -> str:
        """Say that it cannot be done."""
        _refuse(node)

    def poll(self, node: base.Node, command_id: str,
             ) -> base.Progress | base.Done | base.Failed:
        """Say that it cannot be done."""
        _refuse(node)

    def stop(self, node: base.Node, command_id: str) -> None:
        """There is never anything to stop."""


def _refuse(node: base.Node) -> NoReturn:
    raise errors.UnsupportedInterface(
        node=node['uuid'], kind='snapshot', name='no-snapshot',
        action='be snapshotted')
