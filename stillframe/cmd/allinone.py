# SPDX-License-Identifier: Apache-2.0
"""stillframe: API, conductor and compute worker in one process.

The embedded default for one machine. What the configuration leaves open is
set so that it needs nothing else: SQLite in the state path, RPC inside the
process, nobody checked on an address that only this machine reaches.
"""

from collections.abc import Sequence
import ipaddress
import os
import sys

import alembic.util
from oslo_config import cfg
from oslo_db import exception as db_exc
from oslo_db import options as db_options
import oslo_messaging
import sqlalchemy as sa

from stillframe import conf as stillframe_conf
from stillframe import exceptions
from stillframe import service
from stillframe.api import app
from stillframe.api import server
from stillframe.cmd import lost_requests
from stillframe.compute import worker
from stillframe.conductor import service as conductor
from stillframe.db import base
from stillframe.db import migration
from stillframe.rpc import transport


def set_defaults(conf: cfg.ConfigOpts) -> None:
    """Set what the configuration leaves open.

    :raises ConfigError: it would let anybody in from outside.
    """
    # Parsing registers the option.
    oslo_messaging.TransportURL.parse(conf)
    conf.set_default('transport_url', 'inproc://')
    db_options.set_defaults(conf, connection=base.embedded(conf))
    conf.set_default('auth_strategy', 'noauth', 'api')
    found = conf.get_location('auth_strategy', 'api')
    chosen = found is not None and found.location.is_user_controlled
    if not chosen and not _is_loopback(conf.api.host):
        raise exceptions.ConfigError(
            reason=f'[api]host is {conf.api.host}, which others can reach, '
            'and [api]auth_strategy is not set. Set it: to noauth only if '
            'everybody who can reach this address may freeze servers.')


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == 'localhost'


def prepare_state(conf: cfg.ConfigOpts) -> None:
    """Make the state path and bring the database up to date.

    :raises ConfigError: one of the two cannot be had.
    """
    try:
        os.makedirs(conf.state_path, mode=0o700, exist_ok=True)
    except OSError as exc:
        raise exceptions.ConfigError(
            reason=f'[DEFAULT]state_path {conf.state_path} cannot be made: '
            f'{exc.strerror}. Make it, or name another folder.') from exc
    base.configure(conf)
    try:
        migration.upgrade()
    except (db_exc.DBError, db_exc.CantStartEngineError,
            sa.exc.SQLAlchemyError, alembic.util.CommandError) as exc:
        raise exceptions.ConfigError(
            reason='the database ([database]connection, or '
            f'stillframe.sqlite in [DEFAULT]state_path {conf.state_path}) '
            f'cannot be used: {exc}') from exc


def build(conf: cfg.ConfigOpts) -> Sequence[service.Service]:
    """Make the parts of the process.

    Outcomes need a conductor, requests need both: in this order.

    :raises ConfigError: the configuration, the state path or the database
        cannot be used.
    """
    set_defaults(conf)
    prepare_state(conf)
    compute = worker.Worker(conf)
    lost = ([lost_requests.LostRequests(conf, compute)]
            if transport.is_in_process(conf) else [])
    return [conductor.Conductor(conf), compute, *lost,
            server.ApiServer(conf, app.build_app(conf))]


def started(services: Sequence[service.Service]) -> None:
    """Say where it listens, and for which hypervisor."""
    conf = stillframe_conf.CONF
    for one in services:
        if isinstance(one, server.ApiServer):
            print(f'stillframe: {one.url}/v2.1 '
                  f'(auth {conf.api.auth_strategy}), '
                  f'worker {conf.compute.host} on '
                  f'{conf.compute.connection_uri}, '
                  f'state in {conf.state_path}', flush=True)


def main() -> int:
    """Run until a signal comes; the console script."""
    try:
        return service.main(
            'stillframe', build, started,
            'API, conductor and compute worker in one process, for one '
            'machine. What the configuration leaves open is set so that '
            'nothing else is needed.')
    finally:
        transport.cleanup()
        base.dispose()


if __name__ == '__main__':
    sys.exit(main())
