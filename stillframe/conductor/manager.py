# SPDX-License-Identifier: Apache-2.0
"""The conductor's RPC: it writes down what compute workers report.

Each method is safe to call twice with the same report, and to serve on
several conductors at once; see :mod:`stillframe.db.outcomes`.
"""

from collections.abc import Callable
from collections.abc import Mapping
import functools
from typing import Any
from typing import TypeVar

from oslo_log import log
import oslo_messaging

from stillframe import context
from stillframe import exceptions
from stillframe.db import images
from stillframe.db import inventory
from stillframe.db import outcomes as db_outcomes
from stillframe.db import services
from stillframe.rpc import payloads
from stillframe.rpc import versions

LOG = log.getLogger(__name__)

#: Applies an outcome of a host; gives a verdict.
Applier = Callable[[str, payloads.Outcome], str]

# What a malformed outcome raises; see report_outcomes.
_MALFORMED = (KeyError, TypeError, ValueError)


_F = TypeVar('_F', bound=Callable[..., Any])


def _answered(method: _F) -> _F:
    """Have a method end in an answer or in an error of our own.

    oslo.messaging raises Python's own errors at the caller as if they had
    happened there; one would end the thread that delivers outcomes.
    """
    @functools.wraps(method)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        try:
            return method(*args, **kwargs)
        except exceptions.StillframeError:
            raise
        except Exception as exc:
            LOG.exception('A report cannot be taken')
            raise exceptions.StillframeError(
                f'{type(exc).__name__}: {exc}') from exc
    return wrapper  # type: ignore[return-value]


class ConductorManager:
    """The RPC endpoint; the client side is rpc/conductor_api.py."""

    target = oslo_messaging.Target(version=versions.CONDUCTOR_VERSION)

    def __init__(self, appliers: Mapping[str, Applier] | None = None):
        """Take who applies outcomes that are not about freezes.

        :param appliers: by an outcome's kind.
        """
        self._appliers = dict(appliers or {})

    @_answered
    def report_service(self, ctxt: context.RequestContext, host: str,
                       binary: str, started_at: str, report_count: int,
                       capabilities: dict[str, Any], servers_digest: str
                       ) -> payloads.ServiceReply:
        """Take down that a worker is alive.

        :raises ServiceUnavailable: the database cannot be reached.
        """
        applied = services.report(host, binary, started_at, report_count,
                                  capabilities)
        return {'resync': applied != servers_digest}

    @_answered
    def report_servers(self, ctxt: context.RequestContext, host: str,
                       servers: list[payloads.Server], gone: list[str],
                       full: bool, servers_digest: str
                       ) -> payloads.ServersReply:
        """Take down which servers a host has.

        :raises ServiceUnavailable: the database cannot be reached.
        """
        return {'quiesced': inventory.apply(host, servers, gone, full,
                                            servers_digest)}

    @_answered
    def report_outcomes(self, ctxt: context.RequestContext, host: str,
                        outcomes: list[payloads.Outcome]
                        ) -> list[payloads.Verdict]:
        """Take down how work ended, in the order of the list.

        A malformed outcome gets the verdict ``unknown``: unacknowledged,
        it would hold up those behind it for ever.

        :raises ServiceUnavailable: the database cannot be reached; what
            was applied before that is found as a duplicate next time.
        """
        return [{'id': one['id'], 'verdict': self._apply(host, one)}
                for one in outcomes]

    @_answered
    def report_image(self, ctxt: context.RequestContext, host: str,
                     request_id: str, server_id: str, task_state: str,
                     percent: int) -> None:
        """Take down how far an image is.

        :raises ServiceUnavailable: the database cannot be reached.
        """
        images.progressed(request_id, task_state, percent)

    def _apply(self, host: str, outcome: payloads.Outcome) -> str:
        try:
            applier = self._appliers.get(outcome['kind'],
                                         db_outcomes.apply)
            verdict = applier(host, outcome)
        except _MALFORMED:
            LOG.exception('Outcome %s from %s cannot be applied and is '
                          'dropped', outcome, host)
            return payloads.UNKNOWN
        LOG.info('Outcome %(kind)s %(result)s of server %(server)s, request '
                 '%(request)s, from %(host)s: %(verdict)s',
                 {'kind': outcome['kind'], 'result': outcome['result'],
                  'server': outcome['server_id'],
                  'request': outcome['request_id'], 'host': host,
                  'verdict': verdict})
        return verdict
