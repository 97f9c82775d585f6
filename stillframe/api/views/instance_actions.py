# SPDX-License-Identifier: Apache-2.0
"""Instance actions and their events on the wire."""

from collections.abc import Mapping
import dataclasses
from typing import Any

from stillframe.api import microversions as mv
from stillframe.api.views import servers
from stillframe.api.views import times


@dataclasses.dataclass(frozen=True)
class View:
    """How one caller sees actions at one microversion.

    :ivar events: whether the caller sees tracebacks and hosts of events,
        and events at all before microversion 2.51.
    :ivar details: whether the caller sees details of events.
    """

    minor: int
    events: bool = False
    details: bool = False

    def action(self, row: Mapping[Any, Any]) -> dict[str, Any]:
        """Write an action without its events."""
        document = {
            'action': row['action'],
            'instance_uuid': row['server_uuid'],
            'request_id': row['request_id'],
            'user_id': row['user_id'],
            'project_id': row['project_id'],
            'start_time': times.bare(row['start_time']),
            'message': row['message'],
        }
        if self.minor >= mv.ACTIONS_PAGED:
            document['updated_at'] = times.bare(row['updated_at'])
        return document

    def with_events(self, row: Mapping[Any, Any], events: Any,
                    server: Mapping[Any, Any]) -> dict[str, Any]:
        """Write an action with its events.

        :param server: the row of the server that it was done to.
        """
        document = self.action(row)
        if self.events or self.minor >= mv.EVENTS_FOR_ALL:
            document['events'] = [self._event(one, server['project_id'])
                                  for one in events]
        return document

    def _event(self, row: Mapping[Any, Any],
               project_id: str) -> dict[str, Any]:
        document = {
            'event': row['event'],
            'start_time': times.bare(row['start_time']),
            'finish_time': times.bare(row['finish_time']),
            'result': row['result'],
        }
        if self.events:
            document['traceback'] = row['traceback']
        elif self.minor >= mv.EVENTS_FOR_ALL:
            document['traceback'] = None
        if self.minor >= mv.EVENT_HOST:
            document['hostId'] = servers.host_id(project_id,
                                                 row['host'] or '')
            if self.events:
                document['host'] = row['host']
        if self.minor >= mv.EVENT_DETAILS and self.details:
            document['details'] = row['details']
        return document
