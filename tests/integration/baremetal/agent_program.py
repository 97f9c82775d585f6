# SPDX-License-Identifier: Apache-2.0
"""The agent that stands alone, as a program, with hardware made up.

``python -m tests.integration.baremetal.agent_program MAC DISK ARGUMENT…``:
its network card has the address MAC, its only disk is the file DISK.
Everything else is the real agent.
"""

import os
import pathlib
import sys

from stillframe.agent import addresses
from stillframe.agent import cli
from stillframe.agent import disks
from stillframe.agent import lookup


def main() -> int:
    """Run the agent."""
    mac, path, *arguments = sys.argv[1:]
    disk = disks.Disk(name=path, size=os.path.getsize(path),
                      serials=(pathlib.Path(path).stem,))
    addresses.macs = lambda *_args: [mac]
    lookup.Lookup.__init__.__defaults__ = (
        addresses.macs, *lookup.Lookup.__init__.__defaults__[1:])
    disks.found = lambda *_args, **_options: [disk]
    return cli.main(arguments)


if __name__ == '__main__':
    sys.exit(main())
