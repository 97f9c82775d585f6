# SPDX-License-Identifier: Apache-2.0
"""Texts of nodes that are remembered."""

import pytest

from stillframe.api import node_texts
from stillframe.states import nodes as states


def row(uuid, **more):
    """The whole row of a node, as far as it matters here."""
    return {'uuid': uuid, 'version': 1, 'updated_at': None,
            'provision_state': states.ACTIVE, 'reservation': None,
            'power_state': 'power on', 'owner': None, 'lessee': None,
            **more}


class Reader:
    """Asks for texts, and notes which rows were read for it."""

    def __init__(self, most=10):
        self.texts = node_texts.NodeTexts(most)
        self.rows = {}
        self.read = []

    def put(self, *rows):
        """Have rows in the database."""
        self.rows.update((one['uuid'], one) for one in rows)

    def get(self, *uuids, kind='k'):
        """Ask; gives the texts and which rows were read for them."""
        self.read = []

        def read(these):
            self.read = list(these)
            return [self.rows[one] for one in these if one in self.rows]

        stamps = [{name: self.rows[one][name] for name in node_texts.COLUMNS}
                  if one in self.rows else row(one) for one in uuids]
        return self.texts.get(
            stamps, lambda one: kind, read,
            lambda rows: [f'{one["uuid"]}{one["version"]}{kind}'
                          for one in rows]), self.read


@pytest.fixture
def reader():
    """One with two nodes."""
    made = Reader()
    made.put(row('a'), row('b'))
    return made


def test_read_once(reader):
    assert reader.get('a', 'b') == (['a1k', 'b1k'], ['a', 'b'])
    assert reader.get('b', 'a') == (['b1k', 'a1k'], [])


@pytest.mark.parametrize('change', [
    {'version': 2}, {'updated_at': 5}, {'provision_state': 'error'},
    {'reservation': 'c'}, {'power_state': 'power off'}, {'owner': 'p'},
    {'lessee': 'p'}])
def test_read_again_when_it_changed(reader, change):
    reader.get('a', 'b')
    reader.put(row('a', **change))
    _, read = reader.get('a', 'b')
    assert read == ['a']
    _, read = reader.get('a', 'b')
    assert read == []


def test_each_kind_is_another_text(reader):
    assert reader.get('a', kind='x') == (['a1x'], ['a'])
    assert reader.get('a', kind='y') == (['a1y'], ['a'])
    assert reader.get('a', kind='x') == (['a1x'], [])


@pytest.mark.parametrize('state', sorted(states.SNAPSHOT_FAMILY))
def test_a_snapshot_is_never_remembered(reader, state):
    reader.put(row('a', provision_state=state))
    reader.get('a')
    assert reader.get('a') == (['a1k'], ['a'])


def test_a_node_that_is_gone_meanwhile(reader):
    assert reader.get('a', 'z', 'b') == (['a1k', 'b1k'], ['a', 'z', 'b'])


def test_the_longest_unused_are_forgotten():
    reader = Reader(most=2)
    reader.put(row('a'), row('b'), row('c'))
    reader.get('a', 'b')
    reader.get('a')
    reader.get('c')
    assert reader.get('a', 'c')[1] == []
    assert reader.get('b')[1] == ['b']
