# SPDX-License-Identifier: Apache-2.0
"""Hints: what a node's owner writes to say which disk is meant.

The language is that of ironic-python-agent's root device hints: a dict of
names and expressions, an expression being a value or operators with values.
A disk has to match all of them. Text is compared without regard to case;
sizes are in GiB.
"""

from collections.abc import Callable
from collections.abc import Mapping
import operator
import re
from typing import Any

from stillframe.agent import disks
from stillframe.agent import failures

_GIB = 1 << 30

# What a disk has under each name of a hint.
_TEXTS: dict[str, Callable[[disks.Disk], tuple[str, ...]]] = {
    'model': lambda disk: disk.models,
    'vendor': lambda disk: disk.vendors,
    'serial': lambda disk: disk.serials,
    'wwn': lambda disk: disk.wwns,
    'wwn_with_extension': lambda disk: disk.wwns_with_extension,
    'wwn_vendor_extension': lambda disk: disk.wwn_vendor_extensions,
    'name': lambda disk: (disk.name,),
    'hctl': lambda disk: (disk.hctl,),
    'by_path': lambda disk: disk.by_paths,
    'tran': lambda disk: disk.tran,
}
_NUMBERS: dict[str, Callable[[disks.Disk], float]] = {
    'size': lambda disk: disk.size / _GIB}
_SWITCHES: dict[str, Callable[[disks.Disk], bool]] = {
    'rotational': lambda disk: disk.rotational}

# `=` has always meant this (oslo.utils' specs_matcher).
_NUMERIC: dict[str, Callable[[float, float], bool]] = {
    '==': operator.eq, '!=': operator.ne, '<=': operator.le,
    '>=': operator.ge, '=': operator.ge, '<': operator.lt,
    '>': operator.gt}
_LITERAL: dict[str, Callable[[str, str], bool]] = {
    's==': operator.eq, 's!=': operator.ne, 's<=': operator.le,
    's>=': operator.ge, 's<': operator.lt, 's>': operator.gt,
    '<in>': operator.contains}
_LISTS = ('<or>', '<all-in>', '<range-in>')
# Longest first, so that none is taken for the beginning of another.
_OPERATOR = re.compile('|'.join(map(re.escape, sorted(
    (*_NUMERIC, *_LITERAL, *_LISTS), key=len, reverse=True))))
_RANGE = re.compile(r'([\[(])\s*(\S+)\s+(\S+?)\s*([\])])')
_TRUE = ('true', 't', 'yes', 'y', 'on', '1')
_FALSE = ('false', 'f', 'no', 'n', 'off', '0')

_Test = Callable[[Any], bool]


def compile_(hints: Mapping[str, Any]) -> Callable[[disks.Disk], bool]:
    """Make a test of hints.

    :param hints: at least one.
    :return: tells whether a disk matches all of them.
    :raises BadOrder: they cannot be understood.
    """
    if not hints:
        raise failures.BadOrder('There are no hints for a disk.')
    tests = [_one(str(name), hint) for name, hint in hints.items()]
    return lambda disk: all(test(disk) for test in tests)


def _one(name: str, hint: object) -> Callable[[disks.Disk], bool]:
    if name in _TEXTS:
        if not isinstance(hint, str):
            raise _bad(name, 'is no text')
        values, test = _TEXTS[name], _text_test(name, hint)
        # Sources disagree on some of these: any will do.
        return lambda disk: any(
            test(value.strip().lower()) for value in values(disk)
            if value.strip())
    if name in _NUMBERS:
        if isinstance(hint, bool) or not isinstance(hint, (int, float, str)):
            raise _bad(name, 'is no number')
        number, matches = _NUMBERS[name], _number_test(name, str(hint))
        return lambda disk: matches(number(disk))
    if name in _SWITCHES:
        switch, wanted = _SWITCHES[name], _switch(name, hint)
        return lambda disk: switch(disk) == wanted
    raise failures.BadOrder(
        f'The hint {name!r} is not known; those that are: '
        f'{", ".join(sorted((*_TEXTS, *_NUMBERS, *_SWITCHES)))}.')


def _split(name: str, expression: str) -> tuple[str, str]:
    """Give the operator that an expression begins with, and the rest."""
    expression = expression.strip().lower()
    found = _OPERATOR.match(expression)
    sign = found[0] if found else ''
    rest = expression[len(sign):].strip()
    if not rest:
        raise _bad(name, 'has no value')
    return sign, rest


def _text_test(name: str, expression: str) -> _Test:
    sign, rest = _split(name, expression)
    if sign == '<or>':
        values = [value.strip() for value in rest.split('<or>')]
        return lambda value: value in values
    if sign == '<all-in>':
        parts = rest.split()
        return lambda value: all(part in value for part in parts)
    if sign == '<range-in>' or sign in _NUMERIC:
        numeric = _number_test(name, expression)
        return lambda value: _is_number(value) and numeric(float(value))
    compare = _LITERAL[sign or 's==']
    return lambda value: compare(value, rest)


def _number_test(name: str, expression: str) -> _Test:
    sign, rest = _split(name, expression)
    if sign == '<or>':
        wanted = [_number(name, value) for value in rest.split('<or>')]
        return lambda value: value in wanted
    if sign == '<range-in>':
        return _range(name, rest)
    if sign and sign not in _NUMERIC:
        raise _bad(name, f'cannot be compared with {sign}')
    compare, number = _NUMERIC[sign or '=='], _number(name, rest)
    return lambda value: compare(value, number)


def _range(name: str, rest: str) -> _Test:
    found = _RANGE.fullmatch(rest)
    if found is None:
        raise _bad(name, 'is no range such as [ 10 20 )')
    low, high = _number(name, found[2]), _number(name, found[3])
    above = operator.ge if found[1] == '[' else operator.gt
    below = operator.le if found[4] == ']' else operator.lt
    return lambda value: above(value, low) and below(value, high)


def _number(name: str, text: str) -> float:
    if not _is_number(text):
        raise _bad(name, 'is no number')
    return float(text)


def _is_number(text: str) -> bool:
    try:
        return abs(float(text)) < float('inf')
    except ValueError:
        return False


def _switch(name: str, hint: object) -> bool:
    text = str(hint).strip().lower()
    if text not in (*_TRUE, *_FALSE):
        raise _bad(name, 'is neither true nor false')
    return text in _TRUE


def _bad(name: str, what: str) -> failures.BadOrder:
    return failures.BadOrder(f'The hint {name!r} {what}.')
