# SPDX-License-Identifier: Apache-2.0
"""Nodes: reading, changes that users make."""

import uuid

import pytest
import sqlalchemy as sa

from stillframe import exceptions
from stillframe.db import base
from stillframe.db import models
from stillframe.db import nodes
from stillframe.db import ports

pytestmark = pytest.mark.usefixtures('database')


def make(**values):
    return nodes.create({'driver': 'fake-hardware', **values})


def test_a_new_node():
    made = make(name='one', driver_info={'address': 'x'}, extra={'a': [1]})
    assert uuid.UUID(made['uuid'])
    assert made['provision_state'] == 'enroll'
    assert made['target_provision_state'] is None
    assert made['driver_info'] == {'address': 'x'}
    assert made['maintenance'] is False
    assert nodes.get(made['uuid']) == made
    assert nodes.get(made['uuid'].upper()) == made
    assert nodes.get('one') == made


@pytest.mark.parametrize('ident', [
    'nothing', '9f1c2f0e-5f0d-4a47-9d5e-0d3c6a8b7e21', ''])
def test_an_unknown_node(ident):
    make(name='one')
    with pytest.raises(exceptions.NodeNotFound):
        nodes.get(ident)


@pytest.mark.parametrize('column, what', [
    ('name', 'node with name one'),
    ('uuid', 'node with UUID'),
    ('instance_uuid', 'is already associated with a node'),
])
def test_names_that_are_taken(column, what):
    value = 'one' if column == 'name' else str(uuid.uuid4())
    make(**{column: value})
    with pytest.raises(exceptions.AlreadyExists) as caught:
        make(**{column: value})
    assert what in caught.value.message
    if column != 'uuid':
        other = make()
        with pytest.raises(exceptions.AlreadyExists) as caught:
            nodes.update(other, {column: value})
        assert what in caught.value.message


def test_of_two_changes_from_the_same_sight_one_is_refused():
    node = make()
    changed = nodes.update(node, {'extra': {'a': 1}})
    assert changed['extra'] == {'a': 1}
    with pytest.raises(exceptions.NodeChanged):
        nodes.update(node, {'extra': {'b': 2}})
    assert nodes.update(changed, {'name': 'x'})['extra'] == {'a': 1}


def test_what_is_not_a_users_is_not_changed_here():
    with pytest.raises(ValueError):
        nodes.update(make(), {'provision_state': 'active'})


def reserved(node, host='c1'):
    with base.writer() as conn:
        conn.execute(sa.update(models.nodes)
                     .where(models.nodes.c.uuid == node['uuid'])
                     .values(reservation=host))
    return nodes.get(node['uuid'])


def test_a_node_that_is_worked_on_is_not_changed():
    node = reserved(make())
    with pytest.raises(exceptions.NodeLocked) as caught:
        nodes.update(node, {'name': 'x'})
    assert 'locked by host c1' in caught.value.message
    assert nodes.update(node, {'maintenance': True})['maintenance'] is True
    with pytest.raises(exceptions.NodeLocked):
        nodes.destroy(node)


def test_a_node_that_moved_since_it_was_seen_is_not_changed():
    node = make()
    state(node, 'snapshot wait')
    with pytest.raises(exceptions.NodeChanged):
        nodes.update(node, {'driver_info': {'a': 1}})
    assert nodes.get(node['uuid'])['driver_info'] == {}
    assert nodes.update(node, {'maintenance': True})['maintenance'] is True


def state(node, name):
    with base.writer() as conn:
        conn.execute(sa.update(models.nodes)
                     .where(models.nodes.c.uuid == node['uuid'])
                     .values(provision_state=name))
    return nodes.get(node['uuid'])


def test_deleting_a_node():
    node = make()
    ports.create({'node_uuid': node['uuid'], 'address': '52:54:00:00:00:01'})
    nodes.destroy(node)
    with pytest.raises(exceptions.NodeNotFound):
        nodes.get(node['uuid'])
    with pytest.raises(exceptions.NodeNotFound):
        nodes.destroy(node)
    assert ports.list_page(10) == []


def test_a_node_that_may_not_be_deleted():
    node = state(make(), 'active')
    with pytest.raises(exceptions.WrongNodeState):
        nodes.destroy(node)
    node = state(nodes.update(node, {'maintenance': True}), 'snapshot wait')
    with pytest.raises(exceptions.WrongNodeState):
        nodes.destroy(node)
    node = nodes.update(state(node, 'active'),
                        {'instance_uuid': str(uuid.uuid4())})
    with pytest.raises(exceptions.NodeAssociated):
        nodes.destroy(node)
    nodes.destroy(nodes.update(node, {'instance_uuid': None}))


def names(*args, **kwargs):
    return [row['name'] for row in nodes.list_page(*args, **kwargs)]


def test_lists():
    for at, name in enumerate('cab'):
        make(name=name, owner='p' if at else None,
             resource_class='gold' if name == 'a' else None,
             instance_uuid=str(uuid.uuid4()) if name == 'b' else None,
             description=f'100% {name}')
    every = nodes.Filters()
    assert names(every, 10) == ['c', 'a', 'b']
    assert names(every, 10, sort_key='name') == ['a', 'b', 'c']
    assert names(every, 10, sort_key='name', sort_dir='desc') == [
        'c', 'b', 'a']
    assert names(nodes.Filters(equal={'resource_class': 'gold'}), 10) == [
        'a']
    assert names(nodes.Filters(associated=True), 10) == ['b']
    assert names(nodes.Filters(associated=False), 10) == ['c', 'a']
    assert names(nodes.Filters(project_id='p'), 10) == ['a', 'b']
    assert names(nodes.Filters(description_contains='0% a'), 10) == ['a']
    assert names(nodes.Filters(description_contains='%a'), 10) == []


@pytest.mark.parametrize('sort_key', ['id', 'name', 'owner', 'created_at'])
@pytest.mark.parametrize('sort_dir', ['asc', 'desc'])
def test_pages_have_each_node_once(sort_key, sort_dir):
    for at in range(7):
        make(name=f'n{at}' if at % 2 else None,
             owner='p' if at % 3 else None)
    found, marker = [], None
    while page := nodes.list_page(nodes.Filters(), 2, marker, sort_key,
                                  sort_dir):
        found += page
        marker = page[-1]['uuid']
    whole = nodes.list_page(nodes.Filters(), 10, None, sort_key, sort_dir)
    assert [row['uuid'] for row in found] == [row['uuid'] for row in whole]
    assert len({row['uuid'] for row in found}) == 7


def test_an_unknown_marker():
    with pytest.raises(exceptions.NodeNotFound):
        nodes.list_page(nodes.Filters(), 2, str(uuid.uuid4()))


def test_a_node_by_its_addresses():
    one, two = make(), make()
    ports.create({'node_uuid': one['uuid'], 'address': '52:54:00:00:00:01'})
    ports.create({'node_uuid': one['uuid'], 'address': '52:54:00:00:00:02'})
    ports.create({'node_uuid': two['uuid'], 'address': '52:54:00:00:00:03'})
    found = nodes.get_by_addresses
    assert found(['52:54:00:00:00:01', '52:54:00:00:00:02']) == one
    assert found(['52:54:00:00:00:03', '00:00:00:00:00:00']) == two
    assert found(['52:54:00:00:00:01', '52:54:00:00:00:03']) is None
    assert found(['00:00:00:00:00:00']) is None


def test_a_node_by_its_instance():
    instance = str(uuid.uuid4())
    node = make(instance_uuid=instance)
    assert nodes.get_by_instance(instance) == node
    assert nodes.get_by_instance(node['uuid']) is None


def test_ports():
    node = make(owner='p')
    made = ports.create({'node_uuid': node['uuid'],
                         'address': '52:54:00:00:00:01'})
    assert made['pxe_enabled'] is True
    assert ports.get(made['uuid']) == made
    with pytest.raises(exceptions.AlreadyExists) as caught:
        ports.create({'node_uuid': node['uuid'],
                      'address': '52:54:00:00:00:01'})
    assert 'MAC address 52:54:00:00:00:01' in caught.value.message
    with pytest.raises(exceptions.NodeNotFound):
        ports.create({'node_uuid': str(uuid.uuid4()),
                      'address': '52:54:00:00:00:02'})
    other = ports.create({'node_uuid': make()['uuid'],
                          'address': '52:54:00:00:00:02'})
    with pytest.raises(exceptions.AlreadyExists):
        ports.update(other['uuid'], {'address': '52:54:00:00:00:01'})
    assert ports.update(other['uuid'], {'extra': {'a': 1}})['extra'] == {
        'a': 1}

    def listed(**kwargs):
        return [row['uuid'] for row in ports.list_page(10, **kwargs)]

    assert listed() == [made['uuid'], other['uuid']]
    assert listed(sort_key='address', sort_dir='desc') == [
        other['uuid'], made['uuid']]
    assert listed(marker=made['uuid']) == [other['uuid']]
    assert listed(node_uuid=node['uuid']) == [made['uuid']]
    assert listed(address='52:54:00:00:00:02') == [other['uuid']]
    assert listed(project_id='p') == [made['uuid']]
    ports.destroy(made['uuid'])
    with pytest.raises(exceptions.PortNotFound):
        ports.destroy(made['uuid'])
    with pytest.raises(exceptions.PortNotFound):
        ports.get(made['uuid'])


@pytest.mark.parametrize('values, error', [
    ({'reservation': 'c1'}, exceptions.NodeLocked),
    ({'provision_state': 'snapshot wait'}, exceptions.PortInUse)])
def test_a_port_of_a_node_in_work_stays_what_it_is(values, error):
    node, other = make(), make()
    busy = ports.create({'node_uuid': node['uuid'],
                         'address': '52:54:00:00:00:01'})
    free = ports.create({'node_uuid': other['uuid'],
                         'address': '52:54:00:00:00:02'})
    with base.writer() as conn:
        conn.execute(sa.update(models.nodes).values(**values).where(
            models.nodes.c.uuid == node['uuid']))
    with pytest.raises(error):
        ports.update(busy['uuid'], {'address': '52:54:00:00:00:03'})
    with pytest.raises(error):
        ports.destroy(busy['uuid'])
    # Nor does one come to it, or go from it.
    with pytest.raises(error):
        ports.update(busy['uuid'], {'node_uuid': other['uuid']})
    with pytest.raises(error):
        ports.update(free['uuid'], {'node_uuid': node['uuid'].upper()})
    assert ports.get(free['uuid'])['node_uuid'] == other['uuid']
    assert ports.get(busy['uuid']) == busy


def test_a_port_that_is_moved():
    node, other = make(), make()
    port = ports.create({'node_uuid': node['uuid'],
                         'address': '52:54:00:00:00:01'})
    assert ports.update(port['uuid'], {'node_uuid': other['uuid'].upper()}
                        )['node_uuid'] == other['uuid']
    with pytest.raises(exceptions.NodeNotFound):
        ports.update(port['uuid'], {'node_uuid': str(uuid.uuid4())})
