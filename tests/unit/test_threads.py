# SPDX-License-Identifier: Apache-2.0
"""No process of ours loads eventlet."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize('module', [
    'stillframe.cmd.allinone', 'stillframe.cmd.api',
    'stillframe.cmd.compute', 'stillframe.cmd.conductor',
    'stillframe.cmd.manage', 'stillframe.rpc.transport'])
def test_no_eventlet(module):
    program = (f'import {module}, sys; '
               'sys.exit(bool(sys.modules.get("eventlet")))')
    done = subprocess.run([sys.executable, '-W', 'ignore', '-c', program],
                          check=False, timeout=120)
    assert done.returncode == 0
