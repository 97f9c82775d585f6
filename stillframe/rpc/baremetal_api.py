# SPDX-License-Identifier: Apache-2.0
"""Client side of the RPC of a conductor about its nodes."""

from typing import Any

from oslo_config import cfg

from stillframe import context
from stillframe import exceptions
from stillframe.rpc import transport
from stillframe.rpc import versions

_WHOM = 'The conductor of the node'


class BaremetalAPI:
    """Hands work on a node to one conductor.

    Who casts has written the work to the database before: what gets lost
    here is found there, and given up with a reason.
    """

    def __init__(self, conf: cfg.ConfigOpts):
        self._conf = conf
        self._client = transport.get_client(
            conf, versions.BAREMETAL_TOPIC, versions.BAREMETAL_VERSION)

    def _to(self, host: str, **options: Any) -> Any:
        return self._client.prepare(
            server=host, version='1.0', retry=self._conf.api.cast_retries,
            **options)

    def _cast(self, ctxt: context.RequestContext, host: str, method: str,
              **kwargs: Any) -> None:
        transport.cast(self._to(host), ctxt, method, _WHOM, 'the work',
                       **kwargs)

    def _call(self, ctxt: context.RequestContext, host: str, method: str,
              timeout: float, **kwargs: Any) -> Any:
        transport.reach(self._to(host), ctxt, _WHOM, 'the enquiry')
        try:
            return self._to(host, timeout=timeout).call(
                ctxt, method, **kwargs)
        except transport.TROUBLE as exc:
            raise exceptions.ServiceUnavailable(
                service=_WHOM, what='the enquiry') from exc

    def do_node_snapshot(self, ctxt: context.RequestContext, host: str,
                         node_id: str, snapshot_id: str) -> None:
        """Begin a snapshot that was accepted.

        :raises ServiceUnavailable: it was not handed over.
        """
        self._cast(ctxt, host, 'do_node_snapshot', node_id=node_id,
                   snapshot_id=snapshot_id)

    def do_provisioning_action(self, ctxt: context.RequestContext,
                               host: str, node_id: str, verb: str) -> None:
        """Do what a verb asks for; the node was moved already.

        :param verb: of :data:`stillframe.states.nodes.VERBS`.
        :raises ServiceUnavailable: it was not handed over.
        """
        self._cast(ctxt, host, 'do_provisioning_action', node_id=node_id,
                   verb=verb)

    def change_node_power_state(self, ctxt: context.RequestContext,
                                host: str, node_id: str, target: str,
                                timeout: float | None) -> None:
        """Change a node's power; it was reserved already.

        :param target: of :data:`stillframe.states.power.TARGETS`.
        :param timeout: seconds for the change; None: as configured.
        :raises ServiceUnavailable: it was not handed over.
        """
        self._cast(ctxt, host, 'change_node_power_state', node_id=node_id,
                   target=target, timeout=timeout)

    def heartbeat(self, ctxt: context.RequestContext, host: str,
                  node_id: str, agent_token: str) -> None:
        """Tell that a node's ramdisk agent was heard, and may be asked.

        :param agent_token: which the agent proved to have; only its digest
            is in the database, so the conductor has it from here.
        :raises ServiceUnavailable: it was not handed over.
        """
        self._cast(ctxt, host, 'heartbeat', node_id=node_id,
                   agent_token=agent_token)

    def validate_node(self, ctxt: context.RequestContext, host: str,
                      node_id: str, timeout: float) -> dict[str, Any]:
        """Ask each interface of a node whether it has what it needs.

        :param timeout: seconds to wait for the answer.
        :return: ``{interface: {"result": bool, "reason": text}}``; reason
            only where result is not true.
        :raises ServiceUnavailable: no answer in time.
        """
        return self._call(ctxt, host, 'validate_node', timeout,
                          node_id=node_id)

    def get_boot_device(self, ctxt: context.RequestContext, host: str,
                        node_id: str, timeout: float) -> dict[str, Any]:
        """Ask what a node boots from.

        :param timeout: seconds to wait for the answer.
        :return: ``{"boot_device": str | None, "persistent": bool | None,
            "error": sentence | None}``.
        :raises ServiceUnavailable: no answer in time.
        """
        return self._call(ctxt, host, 'get_boot_device', timeout,
                          node_id=node_id)

    def set_boot_device(self, ctxt: context.RequestContext, host: str,
                        node_id: str, device: str, persistent: bool,
                        timeout: float) -> dict[str, Any]:
        """Choose what a node boots from.

        :param timeout: seconds to wait for the answer.
        :return: ``{"error": sentence | None}``.
        :raises ServiceUnavailable: no answer in time.
        """
        return self._call(ctxt, host, 'set_boot_device', timeout,
                          node_id=node_id, device=device,
                          persistent=persistent)
