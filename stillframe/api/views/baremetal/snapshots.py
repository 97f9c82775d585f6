# SPDX-License-Identifier: Apache-2.0
"""Snapshots of nodes on the wire: how far one is, and the history."""

from collections.abc import Mapping
from typing import Any

from stillframe.api import baremetal_versions as versions
from stillframe.api.views.baremetal import masking
from stillframe.api.views.baremetal.times import offset
from stillframe.states import nodes as states

_ENDED = {
    states.Outcome.DONE: 'The snapshot to {image} is done: {size} bytes, '
                         '{checksum}.',
    states.Outcome.FAILED: 'The snapshot to {image} failed: {reason}',
    states.Outcome.ABORTED: 'The snapshot to {image} was aborted: {reason}',
    states.Outcome.DELETED: 'The snapshot to {image} ended with the node: '
                            '{reason}',
}


def progress(row: Mapping[Any, Any]) -> dict[str, Any]:
    """Write how far a snapshot is."""
    return {
        'uuid': row['uuid'],
        'image_ref': row['image_ref'],
        'phase': None if row['finished_at'] else row['phase'],
        'phase_at': offset(row['phase_at']),
        'bytes_done': row['bytes_done'],
        'bytes_total': row['bytes_total'],
        'rate': row['rate'],
        'heard_at': offset(row['heard_at']),
    }


def full(row: Mapping[Any, Any]) -> dict[str, Any]:
    """Write all that is known of a snapshot."""
    result = row['result']
    if result is not None:
        # Part of the file: of use to nobody, and not small.
        result = {key: value for key, value in result.items()
                  if key != 'patch'}
    return {
        **progress(row),
        'node_uuid': row['node_uuid'],
        'disk_format': row['disk_format'],
        'options': masking.masked(row['options']),
        'outcome': row['outcome'],
        'reason': row['reason'],
        'consistency': row['consistency'],
        'disk': row['disk'],
        'size': row['size'],
        'checksum': row['checksum'],
        'result': masking.masked(result),
        'conductor': row['conductor'],
        'request_id': row['request_id'],
        'user_id': row['user_id'],
        'project_id': row['project_id'],
        'created_at': offset(row['created_at']),
        'started_at': offset(row['started_at']),
        'finished_at': offset(row['finished_at']),
    }


def event(row: Mapping[Any, Any], base: str, minor: int, detail: bool
          ) -> dict[str, Any]:
    """Write a snapshot as an entry of a node's history.

    :param base: what links begin with.
    :param detail: with what a list shows only when asked.
    """
    path = f'nodes/{row["node_uuid"]}/history/{row["uuid"]}'
    document = {
        'uuid': row['uuid'],
        'created_at': offset(row['created_at']),
        'severity': ('ERROR' if row['outcome'] == states.Outcome.FAILED
                     else 'INFO'),
        'event': _sentence(row),
        'links': [{'rel': 'self', 'href': f'{base}/v1/{path}'},
                  {'rel': 'bookmark', 'href': f'{base}/{path}'}],
    }
    if detail:
        document.update(event_type='snapshot', conductor=row['conductor'],
                        user=row['user_id'])
    if minor >= versions.SNAPSHOT:
        document['snapshot'] = full(row)
    return document


def _sentence(row: Mapping[Any, Any]) -> str:
    if row['outcome'] is None:
        return (f'The snapshot to {row["image_ref"]} is under way '
                f'({row["phase"]}).')
    return _ENDED[states.Outcome(row['outcome'])].format(
        image=row['image_ref'], size=row['size'], checksum=row['checksum'],
        reason=row['reason'] or 'no reason is known.')
