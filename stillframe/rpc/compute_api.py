# SPDX-License-Identifier: Apache-2.0
"""Client side of the compute worker's RPC."""

from oslo_config import cfg

from stillframe import context
from stillframe import exceptions
from stillframe.rpc import payloads
from stillframe.rpc import transport
from stillframe.rpc import versions


class ComputeAPI:
    """Hands work to the compute worker of one host.

    Casts return as soon as the broker has the message. Everything that a
    worker does is bounded there and reported to the conductor.
    """

    def __init__(self, conf: cfg.ConfigOpts):
        self._conf = conf
        self._client = transport.get_client(
            conf, versions.COMPUTE_TOPIC, versions.COMPUTE_VERSION)

    def _cast(self, ctxt: context.RequestContext, host: str,
              method: str, version: str = '1.0', **kwargs: object) -> None:
        client = self._client.prepare(
            server=host, version=version,
            retry=self._conf.api.cast_retries)
        transport.cast(client, ctxt, method,
                       'The compute worker of the server', 'the work',
                       **kwargs)

    def quiesce_server(self, ctxt: context.RequestContext, host: str,
                       server_id: str, timeout: float,
                       mountpoints: list[str] | None) -> None:
        """Freeze a guest; ends in an outcome ``quiesce``.

        :param timeout: seconds from the freeze call to the deadline.
        :param mountpoints: freeze only these; None: all that can be.
        :raises ServiceUnavailable: the broker did not take the message.
        """
        self._cast(ctxt, host, 'quiesce_server', server_id=server_id,
                   timeout=timeout, mountpoints=mountpoints)

    def unquiesce_server(self, ctxt: context.RequestContext, host: str,
                         server_id: str, freeze_id: str) -> None:
        """Thaw a guest; ends in an outcome ``unquiesce``.

        :param freeze_id: request id of the quiesce that is to end.
        :raises ServiceUnavailable: the broker did not take the message.
        """
        self._cast(ctxt, host, 'unquiesce_server', server_id=server_id,
                   freeze_id=freeze_id)

    def reset_server(self, ctxt: context.RequestContext, host: str,
                     server_id: str, state: str) -> None:
        """Thaw a guest if need be; ends in an outcome ``reset``.

        :param state: the vm_state wished for, carried through.
        :raises ServiceUnavailable: the broker did not take the message.
        """
        self._cast(ctxt, host, 'reset_server', server_id=server_id,
                   state=state)

    def snapshot_volume(self, ctxt: context.RequestContext, host: str,
                        snapshot: payloads.VolumeSnapshot) -> None:
        """Make or merge a volume's snapshot.

        The worker claims the request first; it ends in an outcome
        ``volume_snapshot``.

        :raises ServiceUnavailable: the broker did not take the message.
        """
        self._cast(ctxt, host, 'snapshot_volume', version='1.1',
                   snapshot=snapshot)

    def image_server(self, ctxt: context.RequestContext, host: str,
                     image: payloads.Image) -> None:
        """Make an image of a server; ends in an outcome ``image``.

        :raises ServiceUnavailable: the broker did not take the message.
        """
        self._cast(ctxt, host, 'image_server', version='1.2', image=image)

    def ping(self, ctxt: context.RequestContext, host: str,
             timeout: float) -> dict:
        """Ask a worker how it is.

        :param timeout: seconds to wait for the answer.
        :return: ``{'host', 'libvirt_connected', 'frozen'}``.
        :raises ServiceUnavailable: no answer in time.
        """
        client = self._client.prepare(
            server=host, version='1.0', timeout=timeout,
            retry=self._conf.api.cast_retries)
        try:
            return client.call(ctxt, 'ping')
        except transport.TROUBLE as exc:
            raise exceptions.ServiceUnavailable(
                service=f'The compute worker on {host}',
                what='the enquiry') from exc
