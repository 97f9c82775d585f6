# SPDX-License-Identifier: Apache-2.0
"""Nodes on the wire."""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
import dataclasses
import json
from json import encoder
from typing import Any

from stillframe.api import baremetal_versions as versions
from stillframe.api.views.baremetal import masking
from stillframe.api.views.baremetal import node_fields
from stillframe.api.views.baremetal import snapshots
from stillframe.api.views.baremetal.times import offset
from stillframe.drivers import base as drivers
from stillframe.states import nodes as states

_AGENT = ('agent_url', 'agent_version')

REDACTED = ('** Redacted: the policy does not let you see it '
            '(baremetal:node:get:driver_info). **')


@dataclasses.dataclass(frozen=True)
class View:
    """How one caller sees nodes at one microversion.

    :ivar base: what links begin with.
    :ivar shows_hardware: whether the caller may see what concerns the
        hardware of a node.
    :ivar conductor: gives the host that looks after a node.
    :ivar defaults: names of interfaces by kind, by driver, that a node has
        which names none.
    :ivar progress: rows of snapshots by their uuid.
    """

    base: str
    minor: int
    shows_hardware: Callable[[Mapping[Any, Any]], bool]
    conductor: Callable[[Mapping[Any, Any]], str | None]
    defaults: Mapping[str, Mapping[str, str]]
    progress: Mapping[str, Mapping[Any, Any]] = dataclasses.field(
        default_factory=dict)

    def brief(self, rows: Iterable[Mapping[Any, Any]]) -> list[str]:
        """Write nodes, as JSON, as a list without details shows them.

        A thousand small objects, and their JSON, would take longer than
        reading them from the database.
        """
        base = json.dumps(self.base)[1:-1]
        hides_available = self.minor < versions.AVAILABLE_STATE
        texts = []
        for row in rows:
            uuid, state = row['uuid'], row['provision_state']
            if hides_available and state == states.AVAILABLE:
                state = None
            name = ('' if self.minor < versions.NAMES
                    else f'"name": {_quoted(row["name"])}, ')
            texts.append(
                f'{{"uuid": "{uuid}", {name}"instance_uuid": '
                f'{_quoted(row["instance_uuid"])}, "maintenance": '
                f'{"true" if row["maintenance"] else "false"}, '
                f'"power_state": {_quoted(row["power_state"])}, '
                f'"provision_state": {_quoted(state)}, "links": '
                f'[{{"rel": "self", "href": "{base}/v1/nodes/{uuid}"}}, '
                f'{{"rel": "bookmark", "href": "{base}/nodes/{uuid}"}}]}}')
        return texts

    def detailed(self, row: Mapping[Any, Any]) -> dict[str, Any]:
        """Write a node with all that it shows."""
        document: dict[str, Any] = {}
        self._add(document, row, node_fields.living(self.minor))
        document.update(node_fields.fixed(self.minor))
        self._add_linked(document, row, node_fields.linked(self.minor))
        document['links'] = self._links(row['uuid'])
        return document

    def selected(self, row: Mapping[Any, Any],
                 fields: Iterable[str]) -> dict[str, Any]:
        """Write some fields of a node; the links are always there.

        :param fields: of :data:`node_fields.SINCE`.
        """
        wanted = set(fields)
        fixed = node_fields.fixed(self.minor)
        document = {name: fixed[name] for name in wanted & fixed.keys()}
        self._add(document, row, wanted & node_fields.LIVING.keys())
        self._add_linked(document, row, wanted & node_fields.LINKED.keys())
        document['links'] = self._links(row['uuid'])
        return document

    def _add(self, document: dict[str, Any], row: Mapping[Any, Any],
             fields: Iterable[str]) -> None:
        values = dict(row)
        for name in fields:
            write = _WRITERS.get(name)
            document[name] = (values[name] if write is None
                              else write(self, values))
        if not self.shows_hardware(row):
            for name in node_fields.HARDWARE & document.keys():
                document[name] = (
                    REDACTED if name in ('last_error', 'reservation')
                    else {'content': REDACTED})
        if (self.minor < versions.AVAILABLE_STATE
                and document.get('provision_state') == states.AVAILABLE):
            document['provision_state'] = None

    def _interface(self, row: Mapping[Any, Any], kind: str) -> str | None:
        return row[f'{kind}_interface'] or self.defaults.get(
            row['driver'], {}).get(kind)

    def _internal(self, row: Mapping[Any, Any]) -> dict[str, Any]:
        document = masking.masked(row['driver_internal_info'])
        if row['provision_state'] in states.SNAPSHOT_FAMILY:
            document = dict(document)
            if row['agent_url'] is not None:
                document.update({name: row[name] for name in _AGENT})
                document['agent_last_heartbeat'] = offset(
                    row['agent_last_heartbeat'])
            snapshot = self.progress.get(row['snapshot_id'])
            if snapshot is not None:
                document['snapshot'] = snapshots.progress(snapshot)
        return document

    def _add_linked(self, document: dict[str, Any], row: Mapping[Any, Any],
                    names: Iterable[str]) -> None:
        for name in names:
            document[name] = self._links(f'{row["uuid"]}/{name}')

    def _links(self, path: str) -> list[dict[str, str]]:
        return [{'rel': 'self', 'href': f'{self.base}/v1/nodes/{path}'},
                {'rel': 'bookmark', 'href': f'{self.base}/nodes/{path}'}]


def _masked(name: str) -> Callable[[View, Mapping[str, Any]], Any]:
    return lambda view, row: masking.masked(row[name])


def _time(name: str) -> Callable[[View, Mapping[str, Any]], Any]:
    return lambda view, row: offset(row[name])


def _interface(kind: str) -> Callable[[View, Mapping[str, Any]], Any]:
    return lambda view, row: view._interface(row, kind)


# How fields are written that are not just what the column has.
_WRITERS: Mapping[str, Callable[[View, Mapping[str, Any]], Any]] = {
    'conductor': lambda view, row: view.conductor(row),
    'driver_internal_info': lambda view, row: view._internal(row),
    **{name: _masked(name) for name in ('driver_info', 'instance_info')},
    **{name: _time(name) for name in (
        'created_at', 'updated_at', 'provision_updated_at')},
    **{f'{kind}_interface': _interface(kind) for kind in drivers.KINDS},
}


def _quoted(text: str | None) -> str:
    return 'null' if text is None else encoder.encode_basestring_ascii(text)


def node_states(row: Mapping[Any, Any], minor: int,
                shows_hardware: bool) -> dict[str, Any]:
    """Write what GET /v1/nodes/{ident}/states answers."""
    document = {
        'power_state': row['power_state'],
        'target_power_state': row['target_power_state'],
        'provision_state': row['provision_state'],
        'target_provision_state': row['target_provision_state'],
        'provision_updated_at': offset(row['provision_updated_at']),
        'last_error': row['last_error'] if shows_hardware else REDACTED,
        'console_enabled': False,
    }
    if minor < versions.AVAILABLE_STATE and (
            row['provision_state'] == states.AVAILABLE):
        document['provision_state'] = None
    for name in ('raid_config', 'target_raid_config', 'boot_mode',
                 'secure_boot'):
        if minor >= node_fields.SINCE[name]:
            document[name] = (row[name] if name in node_fields.LIVING
                              else node_fields.FIXED[name][1])
    return document
