# SPDX-License-Identifier: Apache-2.0
"""A compute worker's RPC, for servers that are bare-metal nodes."""

from oslo_log import log
import oslo_messaging

from stillframe import context
from stillframe import exceptions
from stillframe.conductor.baremetal import preparing
from stillframe.conductor.baremetal import servers
from stillframe.conductor.baremetal import tasks
from stillframe.db import images
from stillframe.db import node_moves
from stillframe.db import nodes
from stillframe.db import outcomes
from stillframe.rpc import payloads
from stillframe.rpc import versions
from stillframe.states.servers import Result

LOG = log.getLogger(__name__)

_NO_FREEZE = ('This server is a bare-metal machine: there is no hypervisor '
              'through which its file systems could be frozen. Nothing was '
              'changed. For a consistent copy of its disk make an image of '
              'it (createImage), for which it is shut down.')
_UNSUPPORTED = 'unsupported'


class ServerManager:
    """The RPC endpoint; the client side is rpc/compute_api.py.

    Volume snapshots are not here: a node's server shows no volumes.
    """

    target = oslo_messaging.Target(version=versions.COMPUTE_VERSION)

    def __init__(self, tools: tasks.Tools):
        self._tools = tools
        self._host = servers.host_name(tools.host)

    def quiesce_server(self, ctxt: context.RequestContext, server_id: str,
                       timeout: float,
                       mountpoints: list[str] | None) -> None:
        """Say that it cannot be done."""
        self._end('quiesce', ctxt, server_id, Result.CANNOT, _UNSUPPORTED,
                  _NO_FREEZE)

    def unquiesce_server(self, ctxt: context.RequestContext, server_id: str,
                         freeze_id: str) -> None:
        """Say that nothing was frozen."""
        self._end('unquiesce', ctxt, server_id, Result.LOST, _UNSUPPORTED,
                  _NO_FREEZE)

    def reset_server(self, ctxt: context.RequestContext, server_id: str,
                     state: str) -> None:
        """Set a state: there is nothing to thaw first."""
        ended = servers.outcome(
            'reset', server_id, ctxt.request_id, Result.SUCCESS, None,
            f'The state was set to {state}. Nothing was frozen.')
        ended['state'] = state
        ended['verified_thawed'] = True
        outcomes.apply(self._host, ended)

    def image_server(self, ctxt: context.RequestContext,
                     image: payloads.Image) -> None:
        """Make an image of a node: a snapshot of it."""
        server_id = image['server_id']
        try:
            if image['require_quiesce']:
                raise exceptions.BadRequest(
                    'The image asks for os_require_quiesce. ' + _NO_FREEZE)
            node = nodes.get_by_instance(server_id)
            if node is None:
                raise exceptions.ServerNotFound(server=server_id)
            # The image was made and is owned by whoever asked for it.
            moved = node_moves.begin(
                node, 'snapshot', self._tools.host, {
                    'image_ref': image['image_id'], 'disk_format': 'qcow2',
                    'options': {}, 'request_id': ctxt.request_id,
                    'user_id': ctxt.user_id,
                    'project_id': ctxt.project_id})
        except exceptions.ServiceUnavailable:
            # The request is given up when nobody reports on it.
            raise
        except exceptions.StillframeError as exc:
            images.apply(self._host, servers.outcome(
                'image', server_id, ctxt.request_id, Result.CANNOT,
                _UNSUPPORTED, exc.message))
            return
        self._tools.do(moved['uuid'], 'begin a snapshot', lambda:
                       preparing.begin(tasks.Task(self._tools, moved)))

    def ping(self, ctxt: context.RequestContext) -> dict:
        """Say that this conductor answers."""
        return {'host': self._host, 'libvirt_connected': False, 'frozen': 0}

    def _end(self, kind: str, ctxt: context.RequestContext, server_id: str,
             result: Result, reason: str, message: str) -> None:
        outcomes.apply(self._host, servers.outcome(
            kind, server_id, ctxt.request_id, result, reason, message))
