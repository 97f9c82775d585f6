# SPDX-License-Identifier: Apache-2.0
"""Merging files that no guest has open, with the real qemu-img."""

import subprocess
import threading

import pytest

from stillframe.compute import qemu_img
from stillframe.compute.libvirt import chains
from stillframe.compute.libvirt import overlays
from stillframe.compute.libvirt.chains import Layer

MIB = 1 << 20


def run(*words):
    subprocess.run(list(map(str, words)), check=True, capture_output=True,
                   timeout=60)


@pytest.fixture
def chain(tmp_path):
    """Four layers of 16 MiB; each has written its own mebibyte."""
    layers = []
    for number, name in enumerate(('v', 'v.a', 'v.b', 'v.c')):
        path, form = tmp_path / name, 'qcow2' if number else 'raw'
        if number:
            below = layers[0]
            run('qemu-img', 'create', '-f', 'qcow2', '-b', below.path, '-F',
                below.format, path)
            run('qemu-img', 'rebase', '-u', '-f', 'qcow2', '-b', below.name,
                '-F', below.format, path)
        else:
            with path.open('wb') as file:
                file.truncate(16 * MIB)
        layers.insert(0, Layer(str(path), form))
        run('qemu-io', '-f', form, '-c',
            f'write -P {number + 1} {number}M 1M', path)
    return tuple(layers)


def content(layer):
    """The first byte of each of the first five mebibytes."""
    raw = layer.path + '.copy'
    run('qemu-img', 'convert', '-f', layer.format, '-O', 'raw', layer.path,
        raw)
    with open(raw, 'rb') as file:
        data = file.read(5 * MIB)
    return [data[at] for at in range(0, 5 * MIB, MIB)]


def tool(timeout=60, stopping=None, progress=None):
    return qemu_img.ImageTool(timeout, stopping or threading.Event(),
                              progress or (lambda percent: None))


@pytest.mark.parametrize(('file', 'target', 'names'), [
    ('v.b', 'v.a', ['v.c', 'v.a', 'v']),
    ('v.a', 'v', ['v.c', 'v.b', 'v']),
    ('v.c', 'v.b', ['v.b', 'v.a', 'v']),
    ('v.a', None, ['v.c', 'v.a', 'v']),
    ('v', None, ['v.c', 'v']),
    (None, None, ['v.c'])])
def test_merge(chain, file, target, names):
    plan = chains.plan_delete(chain, file, target)
    said = []
    tool(progress=said.append).merge(plan)
    found = overlays.walk(plan.after[0])
    assert [layer.name for layer in found] == names
    assert found == plan.after
    assert content(found[0]) == [1, 2, 3, 4, 0]
    assert said == [] or max(said) <= 99


def test_it_fails(chain):
    """The guest has it open: nothing is changed."""
    plan = chains.plan_delete(chain, 'v.b', 'v.a')
    holder = subprocess.Popen(
        ['qemu-io', '-f', 'qcow2', chain[1].path], stdin=subprocess.PIPE,
        stdout=subprocess.PIPE)
    try:
        # Its prompt comes when the file is open and locked.
        assert holder.stdout.read(8) == b'qemu-io>'
        with pytest.raises(qemu_img.ImageToolFailed, match='lock'):
            tool().merge(plan)
    finally:
        holder.stdin.close()
        holder.wait(10)
        holder.stdout.close()
    assert overlays.walk(chain[0]) == chain
    assert content(chain[0]) == [1, 2, 3, 4, 0]


@pytest.mark.parametrize('why', ['time', 'stop'])
def test_it_is_stopped(chain, why):
    stopping = threading.Event()
    if why == 'stop':
        stopping.set()
    plan = chains.plan_delete(chain, None, None)
    with pytest.raises(qemu_img.ImageToolStopped):
        tool(timeout=60 if why == 'stop' else -1,
             stopping=stopping).merge(plan)
    assert overlays.walk(chain[0]) == chain
    assert content(chain[0]) == [1, 2, 3, 4, 0]
    # And done the next time.
    tool().merge(plan)
    assert overlays.walk(chain[0]) == (chain[0],)


def test_a_commit_that_was_cut_off_is_done_again(chain):
    """Copied down, but the file above does not know yet."""
    plan = chains.plan_delete(chain, 'v.b', 'v.a')
    run('qemu-img', 'commit', '-d', '-f', 'qcow2', plan.top.path)
    assert overlays.walk(chain[0]) == chain
    assert content(chain[0]) == [1, 2, 3, 4, 0]
    tool().merge(plan)
    assert overlays.walk(chain[0]) == plan.after
    assert content(chain[0]) == [1, 2, 3, 4, 0]
