# SPDX-License-Identifier: Apache-2.0
"""stillframe-api: the REST service under a WSGI server of its own."""

from collections.abc import Sequence
import sys

from oslo_config import cfg

from stillframe import service
from stillframe.api import app
from stillframe.api import server
from stillframe.db import base
from stillframe.db import schema
from stillframe.rpc import transport


def build(conf: cfg.ConfigOpts) -> Sequence[service.Service]:
    """Make the parts of the process.

    :raises ConfigError: the database has another schema.
    """
    base.configure(conf)
    schema.check()
    return [server.ApiServer(conf, app.build_app(conf))]


def started(services: Sequence[service.Service]) -> None:
    """Say where it listens."""
    for one in services:
        if isinstance(one, server.ApiServer):
            print(f'stillframe-api: {one.url}/v2.1', flush=True)


def main() -> int:
    """Run until a signal comes; the console script."""
    try:
        return service.main(
            'stillframe-api', build, started,
            'The REST service, under a server of its own.')
    finally:
        transport.cleanup()
        base.dispose()


if __name__ == '__main__':
    sys.exit(main())
