# SPDX-License-Identifier: Apache-2.0
"""Conductors on the wire."""

from collections.abc import Mapping
from typing import Any

from stillframe.api import baremetal_versions as versions
from stillframe.api.views.baremetal.times import offset
from stillframe.db import ring

#: What a list shows of each unless asked otherwise.
LISTED = ('hostname', 'conductor_group', 'alive')
FIELDS = (*LISTED, 'drivers', 'created_at', 'updated_at')
#: Since when each field is there.
SINCE: Mapping[str, int] = dict.fromkeys(
    (*FIELDS, 'links'), versions.CONDUCTORS)
#: What a list may be sorted by.
SORT_KEYS = ('hostname', 'conductor_group', 'alive', 'created_at',
             'updated_at')


def conductor(row: Mapping[Any, Any], alive: bool,
              base: str) -> dict[str, Any]:
    """Write a conductor.

    :param alive: whether it reported lately.
    :param base: what links begin with.
    """
    capabilities = row['capabilities']
    path = f'conductors/{row["host"]}'
    return {
        'hostname': row['host'],
        'conductor_group': next(iter(capabilities.get(ring.GROUPS, ())), ''),
        'alive': alive,
        'drivers': sorted(capabilities.get(ring.DRIVERS, ())),
        'created_at': offset(row['created_at']),
        'updated_at': offset(row['last_seen']),
        'links': [{'rel': 'self', 'href': f'{base}/v1/{path}'},
                  {'rel': 'bookmark', 'href': f'{base}/{path}'}],
    }
