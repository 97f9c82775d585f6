# SPDX-License-Identifier: Apache-2.0
"""JSON patches of nodes and ports."""

import pytest

from stillframe import exceptions
from stillframe.api.schemas.baremetal import nodes
from stillframe.api.schemas.baremetal import patches

NODE = {'name': None, 'extra': {'a': {'b': [1, 2]}, 'c/d': 1, 'e~f': 2}}


@pytest.mark.parametrize(('operation', 'expected'), [
    (('add', '/name', 'n'), {**NODE, 'name': 'n'}),
    (('replace', '/name', 'n'), {**NODE, 'name': 'n'}),
    (('replace', '/extra', {}), {**NODE, 'extra': {}}),
    (('remove', '/name'), {'extra': NODE['extra']}),
    (('add', '/extra/a/b/-', 3),
     {**NODE, 'extra': {**NODE['extra'], 'a': {'b': [1, 2, 3]}}}),
    (('add', '/extra/a/b/0', 0),
     {**NODE, 'extra': {**NODE['extra'], 'a': {'b': [0, 1, 2]}}}),
    (('remove', '/extra/c~1d'),
     {**NODE, 'extra': {'a': {'b': [1, 2]}, 'e~f': 2}}),
    (('replace', '/extra/e~0f', 3),
     {**NODE, 'extra': {**NODE['extra'], 'e~f': 3}}),
])
def test_applied(operation, expected):
    op, path, *value = operation
    patch = [{'op': op, 'path': path, **({'value': value[0]}
                                         if value else {})}]
    assert patches.applied(patches.check(patch), NODE) == expected
    assert NODE['extra']['a'] == {'b': [1, 2]}


@pytest.mark.parametrize('operation', [
    ('remove', '/extra/z'), ('replace', '/extra/z', 1),
    ('add', '/extra/z/y', 1), ('add', '/name/z', 1),
    ('add', '/extra/a/b/9', 1), ('add', '/extra/a/b/x', 1),
    ('add', '/extra/a/b/01', 1), ('remove', '/extra/a/b/-'),
    ('add', '/extra/~', 1), ('remove', '/other')])
def test_what_cannot_be_applied(operation):
    op, path, *value = operation
    patch = [{'op': op, 'path': path, **({'value': value[0]}
                                         if value else {})}]
    with pytest.raises(exceptions.BadRequest,
                       match="Couldn't apply patch"):
        patches.applied(patches.check(patch), NODE)


@pytest.mark.parametrize('patch', [
    None, {}, 'x', [1], [{}], [{'op': 'remove'}], [{'path': '/name'}],
    [{'op': 'add', 'path': '/name'}],
    [{'op': 'copy', 'from': '/driver_info', 'path': '/extra'}],
    [{'op': 'move', 'from': '/driver_info', 'path': '/extra'}],
    [{'op': 'test', 'path': '/driver_info', 'value': 1}],
    [{'op': 'remove', 'path': ''}], [{'op': 'remove', 'path': '/'}],
    [{'op': 'remove', 'path': 'name'}], [{'op': 'remove', 'path': '//a'}],
    [{'op': 'add', 'path': '/extra/1234567', 'value': 1}],
    [{'op': 'remove', 'path': '/name'}] * 1001])
def test_what_is_no_patch_of_ours(patch):
    with pytest.raises(exceptions.BadRequest):
        patches.check(patch)


def test_touched():
    assert patches.touched([
        {'op': 'remove', 'path': '/extra/a'},
        {'op': 'remove', 'path': '/driver_info'},
        {'op': 'remove', 'path': '/od~1d~0'}]) == {
            'extra': None, 'driver_info': None, 'od/d~': None}


def patched(path, value, extra):
    """Give a node's extra after a patch of one operation."""
    patch = patches.check([{'op': 'add', 'path': path, 'value': value}])
    return nodes.FIELDS.patched(patch, {
        **dict.fromkeys(nodes.FIELDS.settable), 'extra': extra})['extra']


def test_a_field_does_not_grow_without_end():
    half = 'x' * 40000
    extra = patched('/extra/a', half, {})
    with pytest.raises(exceptions.BadRequest, match='extra would have'):
        patched('/extra/b', half, extra)
    # Another field may change meanwhile, and a large one become smaller.
    large = {'a': half, 'b': half}
    assert patched('/name', 'n', large) == large
    assert patched('/extra', {}, large) == {}


def test_a_field_does_not_become_deeper_without_end():
    extra, path = {}, '/extra'
    with pytest.raises(exceptions.BadRequest, match='nested too deeply'):
        for _ in range(100):
            path += '/a'
            extra = patched(path, {}, extra)
    assert len(path) < 100
