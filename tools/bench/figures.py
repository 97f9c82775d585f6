# SPDX-License-Identifier: Apache-2.0
"""What a figure is, what it is wished to be, and how samples become one."""

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
import contextlib
import dataclasses
import math
import operator
import statistics
from typing import Any

_RELATIONS: dict[str, Callable[[float, float], bool]] = {
    'under': operator.lt,
    'at most': operator.le,
    'at least': operator.ge,
}


@dataclasses.dataclass(frozen=True)
class Aim:
    """What a figure is wished to be.

    :ivar relation: ``under``, ``at most`` or ``at least``.
    :ivar value: in the figure's unit.
    """

    relation: str
    value: float

    def met(self, value: float) -> bool:
        """Tell whether a value is as wished."""
        return _RELATIONS[self.relation](value, self.value)

    def __str__(self) -> str:
        return f'{self.relation} {self.value:g}'


@dataclasses.dataclass(frozen=True)
class Figure:
    """One figure of the benchmark.

    :ivar value: a median where there are many samples, unless
        ``compared_with`` says otherwise.
    :ivar n: number of samples behind the value.
    :ivar p99: the 99th percentile, in the same unit; None where the value
        is no median of samples.
    :ivar compared_with: what the value has to be seen beside, and how it
        was measured.
    :ivar aim: what is wished for; None where nothing is.
    """

    name: str
    value: float
    unit: str
    n: int
    p99: float | None
    compared_with: str
    aim: Aim | None = None

    @property
    def verdict(self) -> str:
        """Say whether the aim was met; '' where there is none."""
        if self.aim is None:
            return ''
        return 'met' if self.aim.met(self.value) else 'MISSED'

    def document(self) -> dict[str, Any]:
        """Give the figure as it is written into bench.json."""
        return {'name': self.name, 'value': _rounded(self.value),
                'unit': self.unit, 'n': self.n,
                'p99': None if self.p99 is None else _rounded(self.p99),
                'compared_with': self.compared_with}


def of_samples(name: str, samples: Sequence[float], unit: str,
               compared_with: str, aim: Aim | None = None) -> Figure:
    """Make a figure of the median and 99th percentile of samples.

    :raises ValueError: there are none.
    """
    return Figure(name, statistics.median(samples), unit, len(samples),
                  percentile(samples, 99), compared_with, aim)


def percentile(samples: Sequence[float], share: float) -> float:
    """Give the smallest sample that so many of a hundred do not exceed.

    :param share: 0 < share <= 100.
    :raises ValueError: there are no samples.
    """
    if not samples:
        raise ValueError('a percentile of no samples')
    ordered = sorted(samples)
    return ordered[max(0, math.ceil(len(ordered) * share / 100) - 1)]


def tidy(value: float) -> str:
    """Write a value for a person: three digits that matter, or more."""
    if value != 0 and abs(value) < 100:
        return f'{value:.3g}'
    return f'{value:.0f}'


def _rounded(value: float) -> float:
    return round(value, 4)


@contextlib.contextmanager
def naming(name: str) -> Iterator[None]:
    """Say in an error which measurement it broke."""
    try:
        yield
    except Exception as exc:
        exc.add_note(f'while measuring {name}')
        raise
