# SPDX-License-Identifier: Apache-2.0
"""stillframe-conductor: takes what compute workers report."""

from collections.abc import Sequence
import sys

from oslo_config import cfg

from stillframe import service
from stillframe.conductor import service as conductor
from stillframe.db import base
from stillframe.db import schema
from stillframe.rpc import transport


def build(conf: cfg.ConfigOpts) -> Sequence[service.Service]:
    """Make the parts of the process.

    :raises ConfigError: the database has another schema.
    """
    base.configure(conf)
    schema.check()
    return [conductor.Conductor(conf)]


def main() -> int:
    """Run until a signal comes; the console script."""
    try:
        return service.main(
            'stillframe-conductor', build, description='Takes what compute '
            'workers report, gives up what got stuck, and looks after '
            'bare-metal nodes.')
    finally:
        transport.cleanup()
        base.dispose()


if __name__ == '__main__':
    sys.exit(main())
