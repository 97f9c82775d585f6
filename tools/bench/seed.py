# SPDX-License-Identifier: Apache-2.0
"""Fill a database with servers, as a conductor would from reports.

``python -m tools.bench.seed --config-file FILE`` (the program is a process
of its own since a process has one database).
"""

import sys

from stillframe import service
from stillframe.compute import clock
from stillframe.db import base
from stillframe.db import inventory
from stillframe.db import services
from tools.bench import population

HOSTS = 20


def main() -> int:
    """Make HOSTS hosts that share the servers equally."""
    conf = service.prepare(prog='seed')
    base.configure(conf)
    for number in range(HOSTS):
        host = population.Host(number, population.SERVERS // HOSTS)
        _looks, kept = population.surveyed(conf, host)
        changes = kept.changes()
        name = population.host_name(number)
        services.report(name, services.COMPUTE, clock.wall(), 1,
                        host.capabilities())
        inventory.apply(name, changes.servers, [], True, changes.digest)
    base.dispose()
    return 0


if __name__ == '__main__':
    sys.exit(main())
