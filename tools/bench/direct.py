# SPDX-License-Identifier: Apache-2.0
"""The shortest way to freeze servers: libvirt itself, no safety at all.

``python -m tools.bench.direct URI UUID...`` freezes them in this order and
thaws them in reverse, once a line of standard input; for each it prints the
seconds from the first freeze call to the end of the last thaw.
"""

import sys
import time

import libvirt

if __name__ == '__main__':
    connection = libvirt.open(sys.argv[1])
    domains = [connection.lookupByUUIDString(one) for one in sys.argv[2:]]
    for _line in sys.stdin:
        began = time.perf_counter()
        for domain in domains:
            domain.fsFreeze()
        for domain in reversed(domains):
            domain.fsThaw()
        print(time.perf_counter() - began, flush=True)
