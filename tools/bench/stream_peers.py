# SPDX-License-Identifier: Apache-2.0
"""How else a disk gets to another machine: davfs2, NBD, dd and curl.

Each as short as it can be made: no digest, no look at what arrived but
qemu-img check where that is a qcow2 file.
"""

import pathlib
import shutil
import subprocess
import time

from tests.lab import processes

_SECONDS = 900
_DAVFS = """\
secrets {folder}/secrets
cache_dir {folder}/cache
ask_auth 0
use_locks 0
drop_weak_etags 1
delay_upload 86400
"""


def davfs(disk: pathlib.Path, ticket: dict[str, str],
          folder: pathlib.Path) -> float:
    """Convert onto a mount of the receiver, and unmount.

    In a mount namespace of its own: see tests.lab.file_systems.

    :param disk: to send.
    :param ticket: of the receiver; without TLS.
    :param folder: empty; the cache of davfs2 is made there.
    :return: seconds.
    """
    url, _, name = ticket['url'].rpartition('/')
    for part in ('cache', 'mount'):
        (folder / part).mkdir()
    shutil.chown(folder / 'cache', group='davfs2')
    (folder / 'cache').chmod(0o770)
    secrets = folder / 'secrets'
    secrets.touch(0o600)
    secrets.write_text(
        f'"{url}/" "{ticket["username"]}" "{ticket["password"]}"\n')
    configuration = folder / 'conf'
    configuration.touch(0o600)
    configuration.write_text(_DAVFS.format(folder=folder))
    script = ('mount -t davfs -o "conf=$1" "$2/" "$3" && qemu-img convert '
              '-T none -f raw -O qcow2 "$4" "$3/$5" && umount "$3"')
    began = time.monotonic()
    subprocess.run(
        ['unshare', '--mount', '--propagation', 'private', 'sh', '-c',
         script, 'sh', configuration, url, folder / 'mount', disk, name],
        check=True, timeout=_SECONDS, stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL)
    return time.monotonic() - began


def nbd(disk: pathlib.Path, size: int, store: pathlib.Path) -> float:
    """Convert into a qcow2 file that qemu-nbd exports; check the file.

    :param size: bytes of the disk.
    :param store: where the receiver keeps its images.
    :return: seconds.
    """
    target = store / 'nbd.qcow2'
    port = processes.free_port()
    subprocess.run(['qemu-img', 'create', '-q', '-f', 'qcow2', target,
                    str(size)], check=True)
    server = processes.Process(
        'qemu-nbd', ['qemu-nbd', '-f', 'qcow2', '-b', '127.0.0.1', '-p',
                     str(port), '-e', '2', '-t', '--cache=unsafe', target],
        store / 'nbd.log')
    server.start()
    try:
        server.wait_ready(lambda: processes.port_open(port))
        began = time.monotonic()
        subprocess.run(
            ['qemu-img', 'convert', '-T', 'none', '-n', '-W', '-m', '8',
             '--target-is-zero', '-f', 'raw', '-O', 'raw', disk,
             f'nbd://127.0.0.1:{port}'], check=True, timeout=_SECONDS)
        # Its tables are written when it ends.
        server.stop()
        subprocess.run(['qemu-img', 'check', '-q', '-f', 'qcow2', target],
                       check=True)
        return time.monotonic() - began
    finally:
        server.stop()
        target.unlink()


def curl(disk: pathlib.Path, ticket: dict[str, str], limit: int) -> float:
    """Send with dd, zstd and curl; nobody looks at what arrived.

    :param limit: bytes that are announced to the receiver.
    :return: seconds.
    """
    script = ('set -o pipefail; dd "if=$1" bs=1M iflag=direct status=none '
              '| zstd -q -1 -T0 | curl -sS --fail -o /dev/null -T - '
              '-u "$2" -H "X-Stillframe-Limit: $3" "$4"')
    began = time.monotonic()
    subprocess.run(
        ['bash', '-c', script, 'bash', disk,
         f'{ticket["username"]}:{ticket["password"]}', str(limit),
         ticket['url']], check=True, timeout=_SECONDS)
    return time.monotonic() - began
