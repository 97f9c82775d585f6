# SPDX-License-Identifier: Apache-2.0
"""The real qemu-img runs for a process that lives, and no longer."""

import os

import pytest

from stillframe import qemu_img


def version(cwd):
    return qemu_img.run(['--version'], str(cwd), lambda: None,
                        qemu_img.Limits())


def test_it_runs(tmp_path):
    ended = version(tmp_path)
    assert ended.status == 0
    assert ended.said.startswith(b'qemu-img version')


def test_it_does_not_begin_for_a_process_that_is_gone(tmp_path):
    # Who died before the signal was arranged is not seen to die: whoever
    # started it is another one than it has for a parent then.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, 'getpid', lambda: 1)
        ended = version(tmp_path)
    assert (ended.status, ended.said) == (1, b'')
