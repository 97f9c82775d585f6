# SPDX-License-Identifier: Apache-2.0
"""Merging the files of a stopped guest's disk, by qemu-img.

QEMU's own locks keep the guest from starting meanwhile.

Each step leaves a chain with the guest's data behind, whenever it is cut
off: a rebase changes the header last, and a commit copies down what the
upper file goes on to hold.
"""

from collections.abc import Callable
import os
import re
import threading

from stillframe import qemu_img
from stillframe.compute import clock
from stillframe.compute.libvirt import chains

_PERCENT = re.compile(rb'\((\d+)\.\d+/100%\)')


class ImageToolFailed(Exception):
    """qemu-img did not do what it was told."""


class ImageToolStopped(Exception):
    """qemu-img was stopped, because of the time or because we stop."""


class ImageTool:
    """Runs qemu-img for one merge."""

    def __init__(self, timeout: float, stopping: threading.Event,
                 progress: Callable[[int], None]):
        """Take the bounds.

        :param timeout: seconds for all of it.
        :param progress: is told the percentage from time to time.
        """
        self._until = clock.now() + timeout
        self._stopping = stopping
        self._progress = progress

    def merge(self, plan: chains.Plan) -> None:
        """Do a merge to the files; the domain's definition is not changed.

        :raises ImageToolFailed: the files still hold the same data, in the
            chain as before or as planned.
        :raises ImageToolStopped: the same.
        """
        if plan.kind == 'pull':
            self._rebase(plan.changed, plan.base, copy=True)
            return
        if plan.top is None or plan.base is None:
            raise ValueError(f'{plan.kind} needs a top and a base')
        # -d: without it the upper file is emptied, which is no use.
        self._run(plan.top.path, [
            'commit', '-p', '-d', '-f', str(plan.top.format), plan.top.path])
        if plan.kind == 'commit':
            above = plan.before[plan.before.index(plan.top) - 1]
            self._rebase(above, plan.base, copy=False)

    def _rebase(self, layer: chains.Layer, base: chains.Layer | None,
                copy: bool) -> None:
        """Give a layer another one below.

        :param copy: take up what it would lose; else only the header is
            changed.
        """
        words = ['rebase', '-f', str(layer.format)]
        words += ['-p'] if copy else ['-u']
        if base is None:
            words += ['-b', '']
        else:
            words += ['-b', base.name, '-F', str(base.format)]
        self._run(layer.path, [*words, layer.path])

    def _run(self, path: str, words: list[str]) -> None:
        try:
            ended = qemu_img.run(words, os.path.dirname(path),
                                 self._why_stop, qemu_img.Limits(),
                                 self._heard)
        except qemu_img.Stopped as exc:
            raise ImageToolStopped(str(exc)) from None
        if ended.status:
            said = (ended.said + ended.complained)[-500:]
            raise ImageToolFailed(
                f'qemu-img {words[0]} ended with {ended.status}: '
                f'{said.decode(errors="replace").strip()}')

    def _why_stop(self) -> str | None:
        if self._stopping.is_set():
            return 'this worker is stopping'
        if clock.now() > self._until:
            return 'it took too long'
        return None

    def _heard(self, more: bytes) -> None:
        for percent in _PERCENT.findall(more)[-1:]:
            self._progress(min(99, int(percent)))
