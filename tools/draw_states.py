# SPDX-License-Identifier: Apache-2.0
"""Draw the state machines of the code into doc/source/states.rst.

``python -m tools.draw_states`` writes the file; with ``--check`` it only
tells whether the file is up to date (exit status 1 when it is not).
"""

from collections.abc import Iterable
import pathlib
import sys
import textwrap

from stillframe.states import nodes
from stillframe.states import servers

TARGET = (pathlib.Path(__file__).resolve().parent.parent
          / 'doc' / 'source' / 'states.rst')

_RESULTS = {
    servers.Result.SUCCESS: 'done and verified',
    servers.Result.CANNOT: 'cannot be done, nothing was changed',
    servers.Result.FAILED: 'went wrong; thawed first, if it could be had',
    servers.Result.LOST: 'the freeze had ended before',
}

_HEAD = """\
.. Written by tools/draw_states.py from the code: change it there.

======
States
======

Servers
=======

A request needs a *vm_state* and no *task_state*; any other is answered with
409 and nothing happens. While it runs, the task_state says so. How it ends
depends on the result that the compute worker reports.

"""

_TAIL = """
Without a request, a quiesced server becomes active again when its freeze
ends: at the deadline, when the guest reboots or stops, or when the guest
itself gave up the freeze. That is recorded as an action ``unquiesce`` of the
system. It becomes ``error`` when the deadline passed and the guest could not
be verified thawed.

``os-resetState`` is taken in any state. From {thaws}, and while a
task runs, the guest is thawed and verified first; then the wished state
({targets}) is set.

All other vm_states follow the power state of the domain:

{powers}
"""


_NODES = """
Bare-metal nodes
================

A request is a word that a client sends as ``target`` to
``states/provision``. A state refuses all others with 400, and while a
conductor is at work on a node (``reservation``) with 409.

{table}

{notes}
"""
_NODE_NOTES = (
    'During all of a snapshot ({family}) the target is ``{family_target}``: '
    'a client takes an empty target in a state that it does not know for a '
    'failure.',
    'In {waiting} nobody has the node reserved: the ramdisk boots, or the '
    'image is on its way, and each heartbeat of its agent leads on. In '
    '{working} a conductor is at work; when it is killed there, another '
    'one, or itself after a restart, brings the node to an end.',
    '``active`` (deploy), ``deleted`` and ``provide`` write nothing to a '
    'disk and erase nothing: what is on it is taken as it is. ``adopt`` is '
    'for nodes that something else has deployed.')


def _names(states: Iterable[str]) -> str:
    return ', '.join(f'``{one}``' for one in sorted(states))


def _of_nodes() -> str:
    """Draw the machine of nodes."""
    requests: dict[str, list[str]] = {}
    for word, event in nodes.VERBS.items():
        requests.setdefault(event, []).append(word)
    rows = [[start, ' / '.join(requests.get(event, ['']))
             or f'({event})', end, nodes.target(end) or '']
            for start, event, end in sorted(nodes.MACHINE)]
    table = _table(['state', 'request, or (event)', 'next state', 'target'],
                   rows)
    notes = '\n\n'.join(_NODE_NOTES).format(
        family=_names(nodes.SNAPSHOT_FAMILY),
        family_target=nodes.target(nodes.SNAPSHOTTING),
        waiting=_names(nodes.WAITING), working=_names(nodes.WORKING))
    return _NODES.format(table=table, notes='\n\n'.join(
        textwrap.fill(one, 76, break_on_hyphens=False)
        for one in notes.split('\n\n')))


def _table(header: list[str], rows: list[list[str]]) -> str:
    widths = [max(len(row[at]) for row in [header, *rows])
              for at in range(len(header))]
    line = ' '.join('=' * width for width in widths)

    def one(row: list[str]) -> str:
        return ' '.join(cell.ljust(width) for cell, width
                        in zip(row, widths, strict=True)).rstrip()

    return '\n'.join([line, one(header), line, *map(one, rows), line])


def text() -> str:
    """Give the whole document."""
    rows, edges = [], []
    for request, transition in servers.TRANSITIONS.items():
        edges.append(f'{transition.vm_state} --{request}--> '
                     f'[{transition.task_state}]')
        for result, vm_state in transition.outcome.items():
            rows.append([request, transition.vm_state,
                         transition.task_state, _RESULTS[result],
                         vm_state])
            edges.append(f'[{transition.task_state}] --{result}--> '
                         f'{vm_state}')
    table = _table(['request', 'needs', 'meanwhile', 'result', 'ends in'],
                   rows)
    drawing = '\n'.join('    ' + edge for edge in edges)
    powers = _table(
        ['power_state', 'vm_state', 'status'],
        [[str(power), servers.vm_state_of_power(power),
          servers.status(servers.vm_state_of_power(power))]
         for power in sorted(servers.POWER_STATES)])
    return (_HEAD + table + '\n\n::\n\n' + drawing + '\n'
            + _TAIL.format(
                thaws=' and '.join(f'``{one}``' for one
                                   in sorted(servers.RESET_THAWS)),
                targets=' or '.join(f'``{one}``' for one
                                    in sorted(servers.RESET_TARGETS)),
                powers=powers)
            + _of_nodes())


def main() -> int:
    """Write or check the document."""
    if '--check' in sys.argv[1:]:
        if TARGET.read_text() == text():
            return 0
        print(f'{TARGET.name} is out of date: run '
              'python -m tools.draw_states', file=sys.stderr)
        return 1
    TARGET.write_text(text())
    return 0


if __name__ == '__main__':
    sys.exit(main())
