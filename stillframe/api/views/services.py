# SPDX-License-Identifier: Apache-2.0
"""Services on the wire."""

from collections.abc import Mapping
from typing import Any

from stillframe.api import microversions as mv
from stillframe.api.views import servers
from stillframe.api.views import times


def service(row: Mapping[Any, Any], up: bool, minor: int
            ) -> dict[str, Any]:
    """Write one service.

    :param up: whether it reported lately.
    """
    document = {
        'id': row['uuid'] if minor >= mv.SERVICE_UUID else row['id'],
        'binary': row['binary'],
        'host': row['host'],
        'zone': servers.ZONE,
        'status': 'enabled',
        'state': 'up' if up else 'down',
        'updated_at': times.bare(row['last_seen']),
        'disabled_reason': None,
    }
    if minor >= mv.FORCED_DOWN:
        document['forced_down'] = False
    return document
