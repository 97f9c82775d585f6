# SPDX-License-Identifier: Apache-2.0
"""Running the real ironic-python-agent outside of a ramdisk.

In a network namespace with nothing but what a test puts there, and a mount
namespace in which it can do no harm: it would set the clock, bring cards
down and power the machine off as it is told to. It wants one card that
looks real: one whose name has a dot in it does.
"""

import json
import os
import pathlib
import subprocess
import urllib.error
import urllib.request

from tests.lab.processes import Process

ROOT = pathlib.Path(__file__).parents[3]
PYTHON = ROOT / '.venv-ipa' / 'bin' / 'python'
# Not as a module of this package: that would import what it has not.
PROGRAM = pathlib.Path(__file__).with_name('ipa_program.py')
PORT = 9999
TOKEN = 'known-beforehand-' * 3

# Programs that the agent cannot do without (it crashes) or must not find.
_SHIMS = {
    'udevadm': 'exit 0', 'lshw': 'echo "{{}}"', 'dmidecode': 'exit 0',
    'hwclock': 'exit 0', 'chronyc': 'exit 0', 'chronyd': 'exit 0',
    'modprobe': 'exit 0', 'ipmitool': 'exit 1',
    'poweroff': 'echo "power off" >>{folder}/power',
    'reboot': 'echo "reboot" >>{folder}/power'}

# $1 is the folder; the rest the command. The kernel's trigger for a reboot
# is put out of its reach.
_CONFINED = """
set -e
mount -t sysfs none /sys
mount -t tmpfs none /run
[ ! -e /proc/sysrq-trigger ] ||
    mount --bind /dev/null /proc/sysrq-trigger
export PATH="$1/shims:$PATH"
shift
exec "$@"
"""


def why_not():
    """Say why it cannot be run here; '' when it can."""
    if os.geteuid():
        return 'namespaces need root'
    if not PYTHON.exists():
        return 'no .venv-ipa: run tools/setup.sh test'
    done = subprocess.run(
        ['unshare', '--mount', '--net', 'sh', '-c',
         'mount -t sysfs none /sys && mount -t tmpfs none /run && '
         'ip link add a.1 type veth peer name b'],
        capture_output=True, text=True)
    return f'no namespaces: {done.stderr}' if done.returncode else ''


class Ramdisk:
    """An agent in the network namespace of whoever makes it.

    :ivar process: of the agent; None before :meth:`start`.
    """

    def __init__(self, folder, mac):
        """Prepare.

        :param folder: for its log and its programs.
        """
        self.folder = folder
        self.process = None
        shims = folder / 'shims'
        shims.mkdir()
        for name, line in _SHIMS.items():
            path = shims / name
            path.write_text(f'#!/bin/sh\n{line.format(folder=folder)}\n')
            path.chmod(0o700)
        for command in (
                ['ip', 'link', 'set', 'lo', 'up'],
                ['ip', 'link', 'add', 'ipa.1', 'address', mac, 'type',
                 'veth', 'peer', 'name', 'other'],
                ['ip', 'link', 'set', 'ipa.1', 'up']):
            subprocess.run(command, check=True, capture_output=True)

    def start(self, disk, *arguments):
        """Boot it, as it were."""
        self.process = Process('ipa', [
            'unshare', '--mount', '--propagation', 'private', 'sh', '-c',
            _CONFINED, 'confined', str(self.folder), str(PYTHON),
            str(PROGRAM), str(disk),
            '--listen_host', '127.0.0.1', '--listen_port', str(PORT),
            '--advertise_host', '127.0.0.1', '--disk_wait_attempts', '1',
            '--debug', *arguments], self.folder / 'ipa.log', cwd=ROOT,
            env=dict(os.environ))
        self.process.start()

    def stop(self):
        """End it, if it runs."""
        if self.process is not None:
            self.process.stop()

    @property
    def log(self):
        """What it logged."""
        return (self.folder / 'ipa.log').read_text()

    def call(self, path, order=None, wait='false'):
        """Call an agent that has no API, and the token TOKEN.

        :return: status and document.
        """
        request = urllib.request.Request(
            f'http://127.0.0.1:{PORT}{path}?wait={wait}'
            f'&agent_token={TOKEN}',
            data=json.dumps(order).encode() if order else None)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as exc:
            with exc:
                return exc.code, json.load(exc)
