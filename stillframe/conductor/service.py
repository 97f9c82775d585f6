# SPDX-License-Identifier: Apache-2.0
"""The conductor as a service: its RPC, its reaper, its own report."""

import datetime
import itertools
from typing import Any

from oslo_config import cfg
from oslo_log import log

from stillframe import exceptions
from stillframe import service
from stillframe.conductor import images
from stillframe.conductor import manager
from stillframe.conductor import reaper
from stillframe.conductor import volume_manager
from stillframe.conductor import volume_reaper
from stillframe.conductor import volume_snapshots
from stillframe.conductor.baremetal import service as baremetal
from stillframe.db import images as db_images
from stillframe.db import services
from stillframe.rpc import transport
from stillframe.rpc import versions

LOG = log.getLogger(__name__)


class Conductor:
    """Everything of a conductor; several may run at once.

    :raises ConfigError: a driver that is enabled cannot be had.
    """

    name = 'the conductor'

    def __init__(self, conf: cfg.ConfigOpts):
        self._conf = conf
        self._started_at = datetime.datetime.now(
            datetime.UTC).replace(tzinfo=None).isoformat()
        self._count = itertools.count()
        self._volumes = volume_snapshots.VolumeSnapshots(conf)
        self._baremetal = baremetal.Baremetal(conf)
        self._reaper = service.Periodic(
            'conductor-reaper', reaper.Reaper(conf, also=[
                volume_reaper.VolumeReaper(conf, self._volumes).look]).look,
            lambda: conf.conductor.reap_interval)
        self._images = service.Periodic(
            'conductor-images', images.ImageKeeper(conf).look,
            lambda: conf.conductor.reap_interval)
        self._report = service.Periodic(
            'conductor-report', self._report_alive,
            lambda: conf.conductor.report_interval)
        self._server = transport.get_server(
            conf, versions.CONDUCTOR_TOPIC, conf.conductor.host,
            [manager.ConductorManager({
                'image': db_images.apply,
                'volume_snapshot': self._volumes.finish}),
             volume_manager.VolumeManager(self._volumes)])

    def start(self) -> None:
        """Take reports from now on."""
        self._volumes.start()
        self._server.start()
        self._reaper.start()
        self._images.start()
        self._baremetal.start()
        # Last, since work is sent to a conductor that has reported.
        self._report.start()

    def stop(self) -> None:
        """Finish the reports in hand and take no more."""
        self._report.stop()
        self._say_goodbye()
        self._baremetal.stop()
        self._images.stop()
        self._reaper.stop()
        self._server.stop()
        self._server.wait()
        self._volumes.stop()

    def _report_alive(self) -> None:
        self._say(self._baremetal.capabilities())

    def _say_goodbye(self) -> None:
        """Let no more nodes be this conductor's."""
        try:
            self._say({})
        except exceptions.ServiceUnavailable as exc:
            LOG.warning('Others notice late that this one ends: %s', exc)

    def _say(self, capabilities: dict[str, Any]) -> None:
        services.report(self._conf.conductor.host, services.CONDUCTOR,
                        self._started_at, next(self._count), capabilities)
