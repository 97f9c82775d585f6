# SPDX-License-Identifier: Apache-2.0
"""What an administrator sees of requests for volume snapshots."""

from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from stillframe.api.views import times


def snapshot(rows: Sequence[sa.RowMapping],
             formats: Mapping[str, str]) -> dict[str, Any]:
    """Show the latest request for a snapshot, and those before it.

    :param rows: the requests, newest first; at least one.
    :param formats: what is known of the volume's files now.
    """
    return {'snapshot': {**_request(rows[0]),
                         'volume_formats': dict(formats),
                         'history': [_request(row) for row in rows[1:]]}}


def _request(row: sa.RowMapping) -> dict[str, Any]:
    return {
        'id': row['snapshot_id'],
        'volumeId': row['volume_id'],
        'serverId': row['server_uuid'],
        'host': row['host'],
        'request_id': row['request_id'],
        'operation': row['operation'],
        'request': row['request'],
        'state': row['state'],
        'progress': f'{row["progress"]}%',
        'message': row['message'],
        'details': row['detail'],
        'consistency': row['consistency'],
        'freeze': row['freeze'],
        'chain_before': row['chain_before'],
        'chain_after': row['chain_after'],
        'file_format': row['formats'],
        'created_at': _time(row['created_at']),
        'started_at': _time(row['started_at']),
        'finished_at': _time(row['finished_at']),
        'cinder': {
            'delivery': row['delivery'],
            'form': row['delivery_form'],
            'attempts': row['delivery_attempts'],
            'error': row['delivery_error'],
            'delivered_at': _time(row['delivered_at']),
        },
    }


def _time(when: Any) -> str | None:
    return times.bare(when)
