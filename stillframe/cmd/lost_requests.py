# SPDX-License-Identifier: Apache-2.0
"""Requests that died with an earlier life of the embedded default.

RPC inside a process ends with it: of a request that had been accepted and
that no worker had begun, nobody knows any more when the process is killed.
The reaper would find that out by waiting. Here it is known at the start: a
request of an earlier life that the worker finds nothing about on its disk
will never be worked on. Of nodes that are shown as servers, the database
tells what was begun.

With a broker this would be wrong, since a message outlives its worker in
the queue of the host.
"""

from collections.abc import Callable
import functools

from oslo_config import cfg
from oslo_db import exception as db_exc
from oslo_log import log

from stillframe import exceptions
from stillframe.clients import cinder
from stillframe.compute import worker as worker_
from stillframe.conductor.baremetal import servers as node_servers
from stillframe.db import images
from stillframe.db import node_snapshots
from stillframe.db import reaping
from stillframe.db import transitions
from stillframe.db import volume_snapshots
from stillframe.states.volume_snapshots import State

LOG = log.getLogger(__name__)

#: Id of the server, id of the request, its host, and what gives that up; it
#: tells whether there was something to be given up.
_Open = tuple[str, str, str, Callable[[], bool]]

_LOST = ('Stillframe was stopped or killed before it began this, as far as '
         'is known. Try again.')


class LostRequests:
    """Gives them up, once: a service between the worker and the API.

    Make it before anything else is started, so that what it finds open is
    of an earlier life; start it when the worker has read what it left, and
    before requests are taken.

    :raises ServiceUnavailable: the database cannot be reached.
    """

    name = 'the search for lost requests'

    def __init__(self, conf: cfg.ConfigOpts, worker: worker_.Worker):
        #: Who tells whether there is something of a request, by host.
        self._knows: dict[str, Callable[[str, str], bool]] = {
            node_servers.host_name(conf.conductor.host): _node_knows,
            conf.compute.host: worker.knows}
        tells = cinder.Cinder(conf).is_configured
        found: list[_Open] = [
            (row['uuid'], row['task_request_id'], row['host'],
             functools.partial(transitions.revert, row['uuid'],
                               row['task_request_id'], _LOST))
            for row in reaping.in_transition()]
        found += [
            (row['server_uuid'], row['request_id'], row['host'],
             functools.partial(images.give_up, row['request_id'], _LOST))
            for row in images.open_requests()]
        found += [
            (row['server_uuid'], row['uuid'], row['host'],
             functools.partial(volume_snapshots.give_up, row['uuid'],
                               row['state'], _LOST, tells))
            for row in volume_snapshots.open_requests()
            if row['state'] == State.PENDING]
        self._open = [one for one in found if one[2] in self._knows]

    def start(self) -> None:
        """Give up what is lost; what else is open, the worker tells."""
        for server_id, request_id, host, give_up in self._open:
            try:
                if self._knows[host](server_id, request_id):
                    continue
                given_up = give_up()
            except exceptions.ServiceUnavailable as exc:
                LOG.warning('Requests of an earlier life are left to the '
                            'reaper: %s', exc)
                return
            except db_exc.DBError as exc:
                # Such as a deadlock after all tries: no reason not to start.
                LOG.error('Request %s of server %s was lost with an earlier '
                          'life, and is left to the reaper: %s', request_id,
                          server_id, exc)
                continue
            if given_up:
                LOG.warning('Request %s of server %s was lost with an '
                            'earlier life, and is given up', request_id,
                            server_id)

    def stop(self) -> None:
        """Nothing is left to be stopped."""


def _node_knows(_server_id: str, request_id: str) -> bool:
    """Tell whether something of a request for a node's server was begun.

    A conductor answers such a request before it takes the next, but for an
    image, which is a snapshot of the node.
    """
    return bool(node_snapshots.of_requests([request_id]))
