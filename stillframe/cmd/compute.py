# SPDX-License-Identifier: Apache-2.0
"""stillframe-compute: the worker beside a hypervisor."""

import sys

from stillframe import service
from stillframe.compute import worker
from stillframe.rpc import transport


def main() -> int:
    """Run until a signal comes; the console script."""
    try:
        return service.main(
            'stillframe-compute', lambda conf: [worker.Worker(conf)],
            description='The worker beside a hypervisor: freezes its guests, '
            'snapshots their volumes, makes images of them.')
    finally:
        transport.cleanup()


if __name__ == '__main__':
    sys.exit(main())
