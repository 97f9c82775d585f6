# SPDX-License-Identifier: Apache-2.0
"""qemu-nbd ends with the process that started it, and not before."""

import concurrent.futures
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time

import pytest

from stillframe import qemu_img
from stillframe.compute.imaging import exports
from stillframe.nbd import client


@pytest.fixture
def room():
    """A folder with a short path, and a disk in it."""
    path = pathlib.Path(tempfile.mkdtemp(prefix='sf-exp-'))
    (path / 'disk').write_bytes(os.urandom(1 << 20))
    yield path
    shutil.rmtree(path)


def node(room):
    return {'driver': 'raw', 'file': {'driver': 'file',
                                      'filename': str(room / 'disk')}}


def served(socket):
    with client.Export(socket, 'vda', 10) as export:
        return bytes(next(iter(export.read(iter([(0, 1 << 20)])))))


def test_it_outlives_the_work_that_began_it(room):
    """The thread of a pool goes on, and so does what it started."""
    made = exports.Exports(room, threading.Event())
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        socket = pool.submit(made.add, 'vda', node(room)).result()
        pool.submit(time.monotonic).result()
        assert served(socket) == (room / 'disk').read_bytes()
        made.close()


def test_it_dies_with_its_process(room):
    program = (
        'import pathlib, sys, threading\n'
        'from stillframe.compute.imaging import exports\n'
        'made = exports.Exports(pathlib.Path(sys.argv[1]), '
        'threading.Event())\n'
        f'print(made.add("vda", {node(room)!r}), flush=True)\n'
        'print(made._children[0].pid, flush=True)\n'
        'sys.stdin.read()\n')
    with subprocess.Popen([sys.executable, '-c', program, room],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True) as parent:
        assert parent.stdout.readline()
        pid = int(parent.stdout.readline())
        assert pathlib.Path(f'/proc/{pid}').exists()
        parent.kill()
        parent.wait()
    until = time.monotonic() + 30
    while pathlib.Path(f'/proc/{pid}').exists():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_it_does_not_begin_for_a_parent_that_is_gone():
    """Who died before the signal was arranged is not seen to die."""
    done = subprocess.run([*qemu_img.DYING_WITH, '1', 'echo', 'alive'],
                          capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout) == (1, '')
