# SPDX-License-Identifier: Apache-2.0
"""Compute workers that take every request and do nothing about it.

``python -m tools.bench.sink --config-file FILE`` prints a line when all of
them listen; given a number on standard input it ends when so many requests
have come, and prints how many did. So what the API sends goes the whole way
through the broker.
"""

import sys
import threading
from typing import Any

import oslo_messaging

from stillframe import context
from stillframe import service
from stillframe.rpc import transport
from stillframe.rpc import versions
from tools.bench import population

#: Hosts of :mod:`tools.bench.seed` that have such a worker.
HOSTS = 8
_PATIENCE = 30.0


class _Endpoint:
    """The RPC endpoint of all of them."""

    target = oslo_messaging.Target(version=versions.COMPUTE_VERSION)

    def __init__(self) -> None:
        self._came = threading.Condition()
        self._count = 0

    def quiesce_server(self, ctxt: context.RequestContext,
                       **_wish: Any) -> None:
        """Count it."""
        with self._came:
            self._count += 1
            self._came.notify_all()

    def wait(self, number: int) -> int:
        """Wait until so many came, but not for ever; tell how many did."""
        with self._came:
            self._came.wait_for(lambda: self._count >= number, _PATIENCE)
            return self._count


def main() -> int:
    """Serve until a number is read and so many requests have come."""
    conf = service.prepare(prog='sink')
    endpoint = _Endpoint()
    servers = [transport.get_server(
        conf, versions.COMPUTE_TOPIC, population.host_name(number),
        [endpoint]) for number in range(HOSTS)]
    for one in servers:
        one.start()
    print('listening', flush=True)
    print(endpoint.wait(int(sys.stdin.readline())), flush=True)
    for one in servers:
        one.stop()
        one.wait()
    transport.cleanup()
    return 0


if __name__ == '__main__':
    sys.exit(main())
