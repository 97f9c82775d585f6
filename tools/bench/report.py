# SPDX-License-Identifier: Apache-2.0
"""The table for a person, bench.json for a program."""

from collections.abc import Iterable
from collections.abc import Sequence
import json
import os
import pathlib
import platform
import textwrap

from tools.bench import figures

_WIDTH = 79
# Load average a processor; what a set-up before left behind is less.
_BUSY = 0.5
_HEADS = ('figure', 'value', 'unit', 'p99', 'n', 'aim', '')


def table(measured: Sequence[figures.Figure]) -> str:
    """Write the figures so that a person can read them."""
    rows = [_HEADS, *(_row(one) for one in measured)]
    widths = [max(len(row[column]) for row in rows)
              for column in range(len(_HEADS))]
    lines = [_line(_HEADS, widths), '-' * (sum(widths) + 2 * len(widths))]
    for row, one in zip(rows[1:], measured, strict=True):
        lines.append(_line(row, widths))
        lines.extend(textwrap.wrap(
            one.compared_with, _WIDTH, initial_indent='    ',
            subsequent_indent='    '))
    missed = [one.name for one in measured if one.verdict == 'MISSED']
    aimed = sum(1 for one in measured if one.aim is not None)
    lines.append('')
    lines.append(f'{aimed - len(missed)} of {aimed} aims met'
                 + (f'; missed: {", ".join(missed)}' if missed else ''))
    return '\n'.join(lines)


def _row(one: figures.Figure) -> tuple[str, ...]:
    return (one.name, figures.tidy(one.value), one.unit,
            '' if one.p99 is None else figures.tidy(one.p99), str(one.n),
            '' if one.aim is None else str(one.aim), one.verdict)


def _line(row: Iterable[str], widths: Sequence[int]) -> str:
    cells = list(row)
    # Numbers to the right, words to the left.
    right = (1, 3, 4)
    return '  '.join(
        cell.rjust(width) if column in right else cell.ljust(width)
        for column, (cell, width)
        in enumerate(zip(cells, widths, strict=True))).rstrip()


def write(measured: Sequence[figures.Figure], path: pathlib.Path) -> None:
    """Write the figures as a list of JSON objects."""
    path.write_text(json.dumps(
        [one.document() for one in measured], indent=1) + '\n', 'utf-8')


def machine() -> str:
    """Say what the figures were measured on."""
    memory = os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE')
    return (f'{os.cpu_count()} x {_processor()}, {memory / 2**30:.0f} GiB, '
            f'Linux {platform.release()}, '
            f'Python {platform.python_version()}; guests under software '
            'emulation')


def _processor() -> str:
    for line in pathlib.Path('/proc/cpuinfo').read_text().splitlines():
        key, _, value = line.partition(':')
        if key.strip() == 'model name':
            return value.strip()
    return platform.machine()


def load() -> str:
    """Say how busy the machine is: its load averages."""
    return 'load average ' + ' '.join(
        f'{one:.2f}' for one in os.getloadavg())


def is_busy() -> bool:
    """Tell whether others use the machine: ask before measuring."""
    return os.getloadavg()[0] > _BUSY * (os.cpu_count() or 1)
