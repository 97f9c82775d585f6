# SPDX-License-Identifier: Apache-2.0
"""Volume attachments on the wire."""

from collections.abc import Mapping
from typing import Any

from stillframe.api import microversions as mv


def attachment(row: Mapping[Any, Any], minor: int) -> dict[str, Any]:
    """Write one volume of a server."""
    document = {'volumeId': row['volume_id'],
                'serverId': row['server_uuid'],
                'device': row['device']}
    if minor < mv.ATTACHMENT_IDS:
        document['id'] = row['volume_id']
    else:
        document['attachment_id'] = row['attachment_id']
        document['bdm_uuid'] = row['attachment_id']
    if minor >= mv.ATTACHMENT_TAG:
        document['tag'] = None
    if minor >= mv.ATTACHMENT_DELETE:
        document['delete_on_termination'] = False
    return document
