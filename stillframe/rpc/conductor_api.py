# SPDX-License-Identifier: Apache-2.0
"""Client side of the conductor's RPC, used by compute workers and the API.

Reports are at-least-once: the caller keeps each until the call returned,
and the conductor takes a second one for a duplicate.
"""

from typing import Any

from oslo_config import cfg

from stillframe import context
from stillframe import exceptions
from stillframe.rpc import payloads
from stillframe.rpc import transport
from stillframe.rpc import versions


class ConductorAPI:
    """Reports to whichever conductor is there."""

    def __init__(self, conf: cfg.ConfigOpts):
        self._conf = conf
        self._client = transport.get_client(
            conf, versions.CONDUCTOR_TOPIC, versions.CONDUCTOR_VERSION)

    def _call(self, ctxt: context.RequestContext, method: str,
              version: str = '1.0', timeout: float | None = None,
              **kwargs: Any) -> Any:
        client = self._client.prepare(
            version=version, retry=0,
            timeout=timeout or self._conf.compute.report_timeout)
        try:
            return client.call(ctxt, method, **kwargs)
        except transport.TROUBLE as exc:
            # RemoteError (the conductor has trouble of its own, such as
            # no database) is one of these too: the report stays kept.
            raise exceptions.ServiceUnavailable(
                service='The conductor', what='the report') from exc

    def report_service(self, ctxt: context.RequestContext, host: str,
                       binary: str, started_at: str, report_count: int,
                       capabilities: dict[str, Any],
                       servers_digest: str) -> payloads.ServiceReply:
        """Tell that a worker is alive.

        :param started_at: wall clock at which the worker started; with
            ``report_count`` it tells one life of a worker from the next.
        :param report_count: grows by one a report.
        :param capabilities: versions, and what the hypervisor lacks.
        :param servers_digest: hash over what was reported of servers.
        :raises ServiceUnavailable: no answer in time.
        """
        return self._call(
            ctxt, 'report_service', host=host, binary=binary,
            started_at=started_at, report_count=report_count,
            capabilities=capabilities, servers_digest=servers_digest)

    def report_servers(self, ctxt: context.RequestContext, host: str,
                       servers: list[payloads.Server],
                       gone: list[str], full: bool,
                       servers_digest: str) -> payloads.ServersReply:
        """Tell which servers a host has.

        :param servers: those that are new or changed; all when ``full``.
        :param gone: ids of those that are no longer on the host.
        :param full: what is not in ``servers`` is not on the host.
        :param servers_digest: digest of the host's servers after this.
        :raises ServiceUnavailable: no answer in time.
        """
        return self._call(
            ctxt, 'report_servers', host=host, servers=servers, gone=gone,
            full=full, servers_digest=servers_digest)

    def report_outcomes(self, ctxt: context.RequestContext, host: str,
                        outcomes: list[payloads.Outcome]
                        ) -> list[payloads.Verdict]:
        """Tell how work ended; in the order in which it ended.

        :return: a verdict for each outcome, in the same order.
        :raises ServiceUnavailable: no answer in time.
        """
        return self._call(ctxt, 'report_outcomes', host=host,
                          outcomes=outcomes)

    def claim_volume_snapshot(self, ctxt: context.RequestContext, host: str,
                              operation_id: str
                              ) -> payloads.VolumeSnapshotClaim:
        """Ask whether the work of a request may begin.

        :raises ServiceUnavailable: no answer in time.
        """
        return self._call(ctxt, 'claim_volume_snapshot', version='1.1',
                          host=host, operation_id=operation_id)

    def report_volume_snapshot(self, ctxt: context.RequestContext,
                               host: str, operation_id: str,
                               percent: int) -> None:
        """Tell how far a merge is.

        :raises ServiceUnavailable: no answer in time.
        """
        self._call(ctxt, 'report_volume_snapshot', version='1.1',
                   host=host, operation_id=operation_id, percent=percent)

    def report_image(self, ctxt: context.RequestContext, host: str,
                     request_id: str, server_id: str, task_state: str,
                     percent: int) -> None:
        """Tell how far an image is.

        :param task_state: of :mod:`stillframe.states.images`.
        :raises ServiceUnavailable: no answer in time.
        """
        self._call(ctxt, 'report_image', version='1.2', host=host,
                   request_id=request_id, server_id=server_id,
                   task_state=task_state, percent=percent)

    def start_volume_snapshot(self, ctxt: context.RequestContext,
                              operation_id: str, timeout: float) -> None:
        """Have the work of an accepted request begun.

        :param timeout: seconds to wait for the answer.
        :raises ServiceUnavailable: it was not begun, and will not be.
        """
        transport.reach(
            self._client.prepare(version='1.3',
                                 retry=self._conf.api.cast_retries),
            ctxt, 'The conductor', 'the request')
        self._call(ctxt, 'start_volume_snapshot', version='1.1',
                   timeout=timeout, operation_id=operation_id)
