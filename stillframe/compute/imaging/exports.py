# SPDX-License-Identifier: Apache-2.0
"""Exporting disks that no running guest has open, by qemu-nbd.

It is told every format, opens for reading only, runs with bounded memory
and dies with this process: with the thread that started it, to be exact, so
only threads that live as long as the process may export (those of the pool
for images do). QEMU's own locks keep a stopped guest from starting on files
that are being read.
"""

from collections.abc import Mapping
import os
import pathlib
import socket
import subprocess
import threading
from typing import Any

from stillframe import qemu_img
from stillframe.compute import clock
from stillframe.compute.libvirt import image_disks

_MEMORY = 2 << 30
# Seconds for it to open its files and listen.
_START = 20.0
_STOP = 5.0
_LOOK = 0.02


class ExportFailed(Exception):
    """qemu-nbd did not come up; the text is for administrators."""


class Exports:
    """The exported disks of one server: one process and socket for each."""

    def __init__(self, folder: pathlib.Path, stopping: threading.Event):
        """Take where the sockets go.

        :param stopping: ends waits.
        """
        self._folder = folder
        self._stopping = stopping
        self._children: list[subprocess.Popen] = []

    def add(self, target: str, node: Mapping[str, Any]) -> str:
        """Export a disk under the name of its target.

        :param node: describes it; see :func:`image_disks.block_node`.
        :return: path of the socket.
        :raises ExportFailed: see there.
        """
        path = self._folder / f'{target}.nbd'
        with (self._folder / f'{target}.log').open('w+b') as log:
            child = subprocess.Popen(
                ['prlimit', f'--as={_MEMORY}', *qemu_img.DYING_WITH,
                 str(os.getpid()), 'qemu-nbd', '--read-only', '--persistent',
                 '--shared=2', '--socket', path, '--export-name', target,
                 image_disks.as_name(node)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env={'PATH': os.environ.get('PATH', os.defpath),
                     'LC_ALL': 'C'})
            self._children.append(child)
            self._wait(child, str(path), log.name)
        return str(path)

    def _wait(self, child: subprocess.Popen, path: str, log: str) -> None:
        """Wait until it listens; nothing announces that."""
        until = clock.now() + _START
        while not _listens(path):
            if child.poll() is not None:
                said = pathlib.Path(log).read_text(errors='replace')
                raise ExportFailed('qemu-nbd ended with '
                                   f'{child.returncode}: {said[-500:]}')
            if clock.now() > until or self._stopping.wait(_LOOK):
                raise ExportFailed('qemu-nbd did not begin to listen')

    def close(self) -> None:
        """End all exports."""
        for child in self._children:
            child.terminate()
        for child in self._children:
            try:
                child.wait(_STOP)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        self._children = []


def _listens(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1)
        try:
            probe.connect(path)
        except OSError:
            return False
        return True
