# SPDX-License-Identifier: Apache-2.0
"""Which conductor looks after a node."""

import uuid

import pytest

from stillframe.conf import CONF
from stillframe.db import ring
from stillframe.db import services
from tests.unit.db import node_scenes as scenes

pytestmark = pytest.mark.usefixtures('database')


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def report(host, count=1, drivers=('fake-hardware',), groups=('',)):
    services.report(host, services.CONDUCTOR, 'life', count,
                    {'drivers': list(drivers), 'groups': list(groups)})


def node(**values):
    return {'uuid': str(uuid.uuid4()), 'driver': 'fake-hardware',
            'conductor_group': '', **values}


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def one(clock):
    made = ring.Ring(CONF, clock)
    made._liveness._clock = clock
    return made


def test_nobody_is_there(one):
    with pytest.raises(ring.NoConductor) as caught:
        one.conductor_for(node())
    assert 'No valid host was found' in caught.value.message
    assert one.alive() == set()


def test_nodes_are_shared_and_all_agree(one):
    for host in ('c1', 'c2', 'c3'):
        report(host)
    nodes = [node() for _ in range(300)]
    found = [one.conductor_for(each) for each in nodes]
    assert found == [ring.Ring(CONF).conductor_for(each) for each in nodes]
    for host in ('c1', 'c2', 'c3'):
        assert found.count(host) > 30


def test_when_one_dies_its_nodes_alone_move(one, clock):
    for host in ('c1', 'c2', 'c3'):
        report(host)
    nodes = [node() for _ in range(100)]
    before = [one.conductor_for(each) for each in nodes]
    for turn in range(2, 30):
        clock.now += 5
        report('c1', turn)
        report('c3', turn)
        one.alive()
    assert one.alive() == {'c1', 'c3'}
    for was, each in zip(before, nodes, strict=True):
        now = one.conductor_for(each)
        assert now in ('c1', 'c3')
        assert was == 'c2' or now == was


def test_drivers_and_groups(one):
    report('c1', groups=('left',))
    report('c2', drivers=('redfish', 'fake-hardware'), groups=('right',))
    assert one.conductor_for(node(conductor_group='left')) == 'c1'
    assert one.conductor_for(node(conductor_group='right')) == 'c2'
    with pytest.raises(ring.NoConductor):
        one.conductor_for(node())
    with pytest.raises(ring.NoConductor):
        one.conductor_for(node(conductor_group='left', driver='redfish'))
    assert one.drivers() == {'fake-hardware': ['c1', 'c2'],
                             'redfish': ['c2']}


def test_who_has_a_snapshot_keeps_it_while_it_lives(one):
    report('c1')
    made = scenes.waiting()
    snapshot = dict(scenes.snapshot(made), conductor='c2')
    assert one.conductor_for(made, snapshot) == 'c1'
    report('c2')
    one.refresh()
    assert one.conductor_for(made, snapshot) == 'c2'
    finished = dict(snapshot, finished_at=snapshot['created_at'])
    assert one.conductor_for(made, finished) == one.conductor_for(made)


def test_a_look_lasts_for_a_while(one, clock):
    report('c1')
    assert one.alive() == {'c1'}
    report('c2')
    assert one.alive() == {'c1'}
    clock.now += CONF.baremetal.ring_interval
    assert one.alive() == {'c1', 'c2'}
