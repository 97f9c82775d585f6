# SPDX-License-Identifier: Apache-2.0
"""The bare-metal nodes that the functional tests find in the database.

They get there by the functions that API and conductor use, so each is in a
state that really comes about.
"""

from typing import Any
import uuid as uuid_

from stillframe.clients import images as clients
from stillframe.conf import CONF
from stillframe.db import node_agents
from stillframe.db import node_moves
from stillframe.db import node_snapshots
from stillframe.db import nodes
from stillframe.db import ports
from stillframe.db import ring
from stillframe.db import services
from stillframe.states import nodes as states
from tests.functional import population

#: The conductor that looks after them.
CONDUCTOR = 'conductor-a'

ENROLLED = 'a0000000-0000-4000-8000-000000000001'
SPARE = 'a0000000-0000-4000-8000-000000000002'
ACTIVE = 'a0000000-0000-4000-8000-000000000003'
LEASED = 'a0000000-0000-4000-8000-000000000004'
WAITING = 'a0000000-0000-4000-8000-000000000005'
FAILED = 'a0000000-0000-4000-8000-000000000006'
LOCKED = 'a0000000-0000-4000-8000-000000000007'
PLAIN = 'a0000000-0000-4000-8000-000000000008'
BOOTING = 'a0000000-0000-4000-8000-000000000009'
RESTING = 'a0000000-0000-4000-8000-00000000000a'
MANAGEABLE = 'a0000000-0000-4000-8000-00000000000b'
NETBOOT = 'a0000000-0000-4000-8000-00000000000c'

INSTANCE = 'b0000000-0000-4000-8000-000000000003'
PORT = 'c0000000-0000-4000-8000-000000000003'
SNAPSHOT = {
    WAITING: 'd0000000-0000-4000-8000-000000000005',
    FAILED: 'd0000000-0000-4000-8000-000000000006',
    LOCKED: 'd0000000-0000-4000-8000-000000000007',
    BOOTING: 'd0000000-0000-4000-8000-000000000009',
    NETBOOT: 'd0000000-0000-4000-8000-00000000000c',
}
IMAGE = 'e0000000-0000-4000-8000-000000000001'

#: Of the agent on the node that waits; its token is known once it is there.
AGENT_URL = 'https://192.0.2.5:9999'
CERTIFICATE = '-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----'
tokens: dict[str, str] = {}

SECRET = 'the-secret-of-the-bmc'
MACS = {
    ACTIVE: '52:54:00:00:00:03', WAITING: '52:54:00:00:00:05',
    LOCKED: '52:54:00:00:00:07', BOOTING: '52:54:00:00:00:09',
    NETBOOT: '52:54:00:00:00:0a',
}
_INFO = {
    'redfish_address': f'https://root:{SECRET}@192.0.2.1',
    'redfish_username': 'root', 'redfish_password': SECRET,
    'deeper': {'snmp_community': SECRET, 'list': [{'api_key': SECRET}]},
    'deploy_kernel': 'https://192.0.2.1/kernel',
    'deploy_ramdisk': 'https://192.0.2.1/ramdisk',
}


def populate() -> None:
    """Fill an empty database."""
    services.report(CONDUCTOR, services.CONDUCTOR,
                    '2026-01-01T00:00:00.000000', 1,
                    {ring.DRIVERS: ['fake-hardware'], ring.GROUPS: ['']})
    _node(ENROLLED, 'enrolled')
    _walk(_node(SPARE, 'spare'), 'manage', 'provide')
    _walk(_node(MANAGEABLE, 'manageable'), 'manage')
    _active(ACTIVE, 'active', owner=population.PROJECT,
            instance_uuid=INSTANCE, driver_info=_INFO,
            instance_info={'image_url': 'https://u:' + SECRET + '@h/i',
                           'capabilities': {'boot_mode': 'uefi'}},
            properties={'cpus': 8}, extra={'rack': 7},
            resource_class='gold', description='The first database')
    _active(LEASED, 'leased', owner=population.OTHER_PROJECT,
            lessee=population.PROJECT, driver_info=_INFO)
    _active(PLAIN, 'plain', owner=population.PROJECT,
            snapshot_interface='no-snapshot')
    _active(RESTING, 'resting', maintenance=True,
            maintenance_reason='new fans')
    _snapshot(_active(LOCKED, 'locked', owner=population.PROJECT))
    _wait(_snapshot(_active(BOOTING, 'booting', boot_interface='fake',
                            owner=population.PROJECT)))
    _wait(_snapshot(_active(NETBOOT, 'netboot', boot_interface='ipxe',
                            driver_info=_INFO, owner=population.PROJECT)))
    _heard(_wait(_snapshot(_active(WAITING, 'waiting',
                                   owner=population.PROJECT))))
    _fail(_snapshot(_active(FAILED, 'failed', owner=population.PROJECT)))


def images() -> dict[str, str]:
    """Make images; give their ids by what they are like."""
    store = clients.connect(CONF)
    made = {}
    for name, owner in (('QUEUED_IMAGE', population.PROJECT),
                        ('ACTIVE_IMAGE', population.PROJECT),
                        ('THEIR_IMAGE', population.OTHER_PROJECT)):
        made[name] = str(uuid_.uuid4())
        store.create(clients.Record(id=made[name], name=name, owner=owner))
    store.activate_empty(made['ACTIVE_IMAGE'])
    return made


def _node(uuid: str, name: str, **more: Any) -> Any:
    node = nodes.create({'uuid': uuid, 'name': name,
                         'driver': 'fake-hardware', **more})
    if uuid in MACS:
        ports.create({'node_uuid': uuid, 'address': MACS[uuid],
                      'uuid': uuid.replace('a', 'c', 1)})
    return node


def _walk(node: Any, *verbs: str) -> Any:
    for verb in verbs:
        node = node_moves.begin(node, verb, CONDUCTOR)
        node = node_moves.move(node, CONDUCTOR, 'done', release=True,
                               also={'power_state': 'power on'})
    return node


def _active(uuid: str, name: str, **more: Any) -> Any:
    late = {key: more.pop(key) for key in ('maintenance',
                                           'maintenance_reason')
            if key in more}
    node = _walk(_node(uuid, name, **more), 'manage', 'adopt')
    return nodes.update(node, late) if late else node


def _snapshot(node: Any) -> Any:
    return node_moves.begin(node, 'snapshot', CONDUCTOR, {
        'uuid': SNAPSHOT[node['uuid']], 'image_ref': IMAGE,
        'disk_format': 'qcow2', 'options': {'compress': None},
        'request_id': f'req-{node["uuid"]}', 'user_id': population.USER,
        'project_id': population.PROJECT})


def _wait(node: Any) -> Any:
    node = node_moves.move(node, CONDUCTOR, 'wait', release=True)
    node_snapshots.write(node['snapshot_id'], {
        'phase': states.Phase.BOOTING.value})
    return node


def _heard(node: Any) -> None:
    uuid = node['uuid']
    token = node_agents.give_token(uuid)
    assert token is not None
    tokens[uuid] = token
    assert node_agents.heard(uuid, token, AGENT_URL, '13.0.0', CERTIFICATE)
    node_snapshots.write(node['snapshot_id'], {
        'phase': states.Phase.STREAMING.value, 'bytes_done': 250,
        'bytes_total': 1000, 'rate': 50.0})


def _fail(node: Any) -> None:
    node_moves.move(node, CONDUCTOR, 'fail', release=True,
                    also={'last_error': 'The agent was silent.'},
                    end=(states.Outcome.FAILED, 'The agent was silent.'))
