# SPDX-License-Identifier: Apache-2.0
"""The part of a conductor that looks after bare-metal nodes."""

from typing import Any

from oslo_config import cfg
from oslo_log import log

from stillframe import service
from stillframe.conductor import receiver as receivers
from stillframe.conductor.baremetal import manager
from stillframe.conductor.baremetal import recovery
from stillframe.conductor.baremetal import server_manager
from stillframe.conductor.baremetal import servers
from stillframe.conductor.baremetal import tasks
from stillframe.conductor.baremetal import upload
from stillframe.conductor.baremetal import watching
from stillframe.conductor.baremetal import workers
from stillframe.db import ring
from stillframe.drivers import factory
from stillframe.rpc import transport
from stillframe.rpc import versions

LOG = log.getLogger(__name__)

# Seconds that work in hand gets to come to a point where it can be taken up
# again.
_STOP_TIMEOUT = 5.0


class Baremetal:
    """Everything about nodes; started and stopped by the conductor.

    :raises ConfigError: a driver that is enabled cannot be had.
    """

    name = 'the bare-metal conductor'

    def __init__(self, conf: cfg.ConfigOpts):
        host = conf.conductor.host
        group = conf.baremetal
        self._group = group
        self._factory = factory.Factory(conf)
        self._receiver = receivers.Receiver(conf)
        self._work = workers.Workers('baremetal', group.workers)
        self._followers = workers.Workers('heartbeat',
                                          group.heartbeat_workers)
        self._uploader = upload.Uploader(conf)
        self._tools = tasks.Tools(
            conf=conf, host=host, factory=self._factory,
            receiver=self._receiver, uploader=self._uploader,
            ring=ring.Ring(conf), work=self._work,
            followers=self._followers)
        self._recovery = recovery.Recovery(self._tools)
        self._recover = service.Periodic(
            'baremetal-recovery', self._recovery.look,
            lambda: conf.conductor.reap_interval)
        self._watch = service.Periodic(
            'baremetal-watch', watching.Watcher(self._tools).look,
            lambda: group.watch_interval)
        self._servers = service.Periodic(
            'baremetal-servers', servers.Servers(self._tools).look,
            lambda: conf.conductor.report_interval)
        self._rpc = [
            transport.get_server(
                conf, versions.BAREMETAL_TOPIC, host,
                [manager.BaremetalManager(self._tools)]),
            transport.get_server(
                conf, versions.COMPUTE_TOPIC, servers.host_name(host),
                [server_manager.ServerManager(self._tools)])]

    def capabilities(self) -> dict[str, Any]:
        """Give what the conductor reports of itself, for the ring."""
        return {ring.DRIVERS: sorted(self._factory.hardware_types()),
                ring.GROUPS: [self._group.conductor_group]}

    def start(self) -> None:
        """Take up what was left, then take requests.

        :raises CannotReceive: images cannot be received here.
        """
        self._receiver.start()
        # Before requests come: what is reserved for this conductor now
        # was so in a former life.
        self._recovery.look(at_start=True)
        for one in self._rpc:
            one.start()
        for periodic in (self._recover, self._watch, self._servers):
            periodic.start()

    def stop(self) -> None:
        """Take no more; what is in hand is left for the next start."""
        self._tools.stopping.set()
        self._uploader.stop()
        for periodic in (self._servers, self._watch, self._recover):
            periodic.stop()
        for one in self._rpc:
            one.stop()
        for one in self._rpc:
            one.wait()
        self._followers.stop(_STOP_TIMEOUT)
        self._work.stop(_STOP_TIMEOUT)
        self._receiver.stop()
        self._factory.close()
