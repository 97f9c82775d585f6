# SPDX-License-Identifier: Apache-2.0
"""Which room may import from which."""

import ast
import pathlib
import sys

import pytest

import stillframe

ROOT = pathlib.Path(stillframe.__file__).parent

# Room and what it must not import. They meet in rpc, states, db, clients
# and conf.
FORBIDDEN = {
    'api': ('conductor', 'compute', 'cmd'),
    'conductor': ('api', 'compute', 'cmd'),
    'compute': ('api', 'conductor', 'db', 'cmd'),
    'states': ('api', 'conductor', 'compute', 'cmd', 'db', 'rpc', 'clients',
               'conf'),
    'rpc': ('api', 'conductor', 'compute', 'cmd', 'db'),
    'db': ('api', 'conductor', 'compute', 'cmd', 'clients'),
    'clients': ('api', 'conductor', 'compute', 'cmd', 'db'),
    'conf': ('api', 'conductor', 'compute', 'cmd', 'db', 'rpc'),
    'drivers': ('api', 'conductor', 'compute', 'cmd', 'db', 'rpc'),
    'policies': ('conductor', 'compute', 'cmd', 'db', 'rpc', 'api'),
    # On the machine of a user, where nothing else of ours need be.
    'osc': ('api', 'conductor', 'compute', 'cmd', 'db', 'rpc', 'clients',
            'conf', 'drivers', 'policies', 'states'),
}

# What the guard loads works when all else is broken; see its docstring.
OF_THE_GUARD = (
    'compute/clock.py', 'compute/files.py', 'compute/guard.py',
    'compute/guard_thaw.py', 'compute/journal.py', 'compute/pidlock.py',
    'compute/libvirt/agent.py', 'compute/libvirt/errors.py',
    'compute/libvirt/freezing.py', 'compute/libvirt/guest.py',
    'compute/libvirt/jobs.py', 'compute/libvirt/lease.py',
    'compute/libvirt/troubles.py')

# A ramdisk has the standard library, and these two of our rooms.
IN_THE_RAMDISK = ('agent', 'qcow2')
# Loaded by ironic-python-agent, in its own ramdisk, and by nobody else.
OF_ITS_EXTENSION = 'ipa'


def imported(path):
    """The full names that a module imports."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f'{node.module}.{alias.name}'
                        for alias in node.names)


def rooms(path):
    """The rooms of ours that a module imports from."""
    return {name.split('.')[1] for name in imported(path)
            if name.startswith('stillframe.')}


@pytest.mark.parametrize('room', FORBIDDEN)
def test_direction(room):
    modules = list((ROOT / room).rglob('*.py'))
    assert modules
    wrong = {str(path): found for path in modules
             if (found := rooms(path) & set(FORBIDDEN[room]))}
    assert not wrong


def test_every_room_has_a_rule_or_is_one_of_the_others():
    free = {'agent', 'cmd', 'nbd', 'qcow2'}
    there = {path.parent.name for path in ROOT.glob('*/__init__.py')}
    assert there == free | set(FORBIDDEN)


@pytest.mark.parametrize('room', IN_THE_RAMDISK)
def test_a_ramdisk_needs_the_standard_library_alone(room):
    paths = list((ROOT / room).rglob('*.py'))
    assert paths
    for path in paths:
        allowed = {'stillframe', *sys.stdlib_module_names}
        if path.parent.name == OF_ITS_EXTENSION:
            allowed |= {'ironic_python_agent', 'oslo_log'}
        names = set(imported(path))
        assert {name.split('.')[0] for name in names} <= allowed, path
        assert rooms(path) <= set(IN_THE_RAMDISK), path


def test_the_agent_that_stands_alone_has_nothing_of_the_extension():
    for path in (ROOT / 'agent').glob('*.py'):
        assert not any(name.startswith('stillframe.agent.ipa')
                       for name in imported(path)), path


@pytest.mark.parametrize('module', OF_THE_GUARD)
def test_the_guard_needs_libvirt_and_the_standard_library_alone(module):
    outside = {name for name in imported(ROOT / module)
               if name.partition('.')[0] in (
                   'alembic', 'oslo_config', 'oslo_log', 'oslo_messaging',
                   'oslo_utils', 'oslo_service', 'sqlalchemy')}
    assert not outside
    ours = {name.removeprefix('stillframe.').replace('.', '/')
            for name in imported(ROOT / module)
            if name.startswith('stillframe.')}
    allowed = {one.removesuffix('.py') for one in OF_THE_GUARD}
    assert all(name in allowed or name.rpartition('/')[0] in allowed
               or name == 'states/servers' for name in ours), ours
