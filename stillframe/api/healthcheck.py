# SPDX-License-Identifier: Apache-2.0
"""GET /healthcheck, for load balancers: 200, or 503 without a database."""

from typing import Any

from oslo_config import cfg
from oslo_log import log
from oslo_middleware import healthcheck
from oslo_middleware.healthcheck import opts
from oslo_middleware.healthcheck import pluginbase

from stillframe import exceptions
from stillframe.db import base

LOG = log.getLogger(__name__)

PATH = '/healthcheck'
#: The entry point in group oslo.middleware.healthcheck.
BACKEND = 'stillframe_database'


class DatabaseCheck(pluginbase.HealthcheckBaseExtension):
    """Asks the database for something, over a connection of the pool."""

    def healthcheck(self, server_port: int) -> pluginbase.HealthcheckResult:
        """Tell whether the database answers."""
        try:
            with base.reader() as conn:
                conn.exec_driver_sql('SELECT 1').close()
        except exceptions.ServiceUnavailable as exc:
            LOG.warning('Health check: %s', exc)
            return pluginbase.HealthcheckResult(
                available=False, reason='The database does not answer.')
        return pluginbase.HealthcheckResult(available=True, reason='OK')


def wrap(app: Any, conf: cfg.ConfigOpts) -> Any:
    """Put the health check in front of an application.

    What it checks can be changed by ``[healthcheck]backends``, for example
    to add ``disable_by_file``.
    """
    conf.register_opts(opts.HEALTHCHECK_OPTS, group='healthcheck')
    conf.set_default('backends', [BACKEND], group='healthcheck')
    check = healthcheck.Healthcheck(app, {'oslo_config_config': conf})

    def middleware(environ, start_response):
        if environ.get('PATH_INFO') == PATH:
            return check(environ, start_response)
        return app(environ, start_response)

    return middleware
