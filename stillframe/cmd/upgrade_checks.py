# SPDX-License-Identifier: Apache-2.0
"""The checks of ``stillframe-manage upgrade check``."""

import os

from oslo_config import cfg
from oslo_upgradecheck import upgradecheck
import sqlalchemy as sa

from stillframe.db import base
from stillframe.db import migration
from stillframe.db import models
from stillframe.rpc import transport as rpc_transport

_OK = upgradecheck.Code.SUCCESS
_WARNING = upgradecheck.Code.WARNING
_FAILURE = upgradecheck.Code.FAILURE


class Checks(upgradecheck.UpgradeCommands):
    """Each check is about one thing that would keep a service from work."""

    def __init__(self, conf: cfg.ConfigOpts):
        self._conf = conf

    def schema(self) -> upgradecheck.Result:
        """Tell whether the tables are those that this code expects."""
        current, head = migration.version(), migration.head()
        if current == head:
            return upgradecheck.Result(_OK, f'Revision {current}.')
        return upgradecheck.Result(
            _FAILURE, f'The database is at revision {current or "none"}, '
            f'this code needs {head}. Run: stillframe-manage db upgrade')

    def held_servers(self) -> upgradecheck.Result:
        """Tell whether servers are frozen or about to be."""
        if migration.version() is None:
            return upgradecheck.Result(_OK, 'No servers yet.')
        servers = models.servers
        with base.reader() as conn:
            held = conn.execute(
                sa.select(sa.func.count()).select_from(servers)
                .where(servers.c.task_state.is_not(None))).scalar_one()
        if held:
            return upgradecheck.Result(
                _WARNING, f'{held} servers are quiescing or unquiescing. '
                'Better let that end before services are restarted.')
        return upgradecheck.Result(_OK, 'No server is in transition.')

    def state_path(self) -> upgradecheck.Result:
        """Tell whether the state path can be written by this user."""
        path = self._conf.state_path
        if not os.path.isdir(path):
            return upgradecheck.Result(
                _WARNING, f'[DEFAULT]state_path {path} is no folder. The '
                'compute worker needs it; other services do not.')
        if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
            return upgradecheck.Result(
                _WARNING, f'This user cannot write [DEFAULT]state_path '
                f'{path}. The user of the compute worker must.')
        return upgradecheck.Result(_OK)

    def transport(self) -> upgradecheck.Result:
        """Tell whether services in processes of their own can meet."""
        if rpc_transport.is_in_process(self._conf):
            return upgradecheck.Result(
                _WARNING, '[DEFAULT]transport_url is inproc://, which ends '
                'at the border of a process: good for the command '
                'stillframe alone. stillframe-api, -conductor and -compute '
                'need a broker (rabbit://).')
        return upgradecheck.Result(_OK)

    def liveness(self) -> upgradecheck.Result:
        """Tell whether a worker could be taken for dead between reports."""
        slowest = max(self._conf.compute.report_interval,
                      self._conf.conductor.report_interval)
        if self._conf.api.service_down_time < 3 * slowest:
            return upgradecheck.Result(
                _WARNING, '[api]service_down_time is less than three times '
                'report_interval of [compute] or [conductor]: one late '
                'report, and a service is taken for dead.')
        return upgradecheck.Result(_OK)

    def patience(self) -> upgradecheck.Result:
        """Tell whether work could be given up while it goes on."""
        longest = (self._conf.compute.freeze_call_timeout
                   + self._conf.compute.settle_timeout)
        if self._conf.conductor.transition_timeout <= longest:
            return upgradecheck.Result(
                _WARNING, '[conductor]transition_timeout is not more than '
                'freeze_call_timeout and settle_timeout of [compute] '
                'together: a slow freeze is given up while it goes on.')
        return upgradecheck.Result(_OK)

    _upgrade_checks = (
        ('Schema of the database', schema),
        ('Servers in transition', held_servers),
        ('State path', state_path),
        ('Message transport', transport),
        ('Reports of life', liveness),
        ('Patience of the conductor', patience),
    )
