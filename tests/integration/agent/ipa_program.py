# SPDX-License-Identifier: Apache-2.0
"""The real ironic-python-agent, as a program, with one disk made up.

``python ipa_program.py DISK ARGUMENT…``: the only disk that our extension
sees is the file DISK; its serial number is the file's name. Everything else
is the real agent.
"""

import os
import pathlib
import sys

from ironic_python_agent.cmd import agent

from stillframe.agent import disks


def main() -> None:
    """Run the agent."""
    program, path, *arguments = sys.argv
    disk = disks.Disk(name=path, size=os.path.getsize(path),
                      serials=(pathlib.Path(path).stem,))
    disks.found = lambda *_args, **_options: [disk]
    sys.argv = [program, *arguments]
    agent.run()


if __name__ == '__main__':
    main()
