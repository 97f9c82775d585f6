# SPDX-License-Identifier: Apache-2.0
"""What the tests of the database have in common: servers and outcomes."""

import uuid

import sqlalchemy as sa

from stillframe import context
from stillframe.db import actions
from stillframe.db import base
from stillframe.db import freezes
from stillframe.db import inventory
from stillframe.db import models
from stillframe.db import outcomes
from stillframe.db import servers
from stillframe.db import transitions
from stillframe.states import servers as states

HOST = 'here'
PROJECT = 'p' * 32
WEB = '11111111-1111-4111-8111-111111111111'


def ctxt():
    """A context of a request, with an id of its own."""
    return context.RequestContext(user_id='u' * 32, project_id=PROJECT,
                                  overwrite=False)


def volume(target='vda', **values):
    """A volume as a worker reports it."""
    told = {'volume_id': str(uuid.uuid5(uuid.NAMESPACE_OID, target)),
            'target': target, 'device': f'/dev/{target}',
            'source': f'/disks/{target}', 'format': 'qcow2',
            'read_only': False}
    return {**told, **values}


def server(uuid=WEB, **values):
    """A server as a worker reports it."""
    told = {'uuid': uuid, 'name': 'web', 'domain_name': 'instance-1',
            'project_id': PROJECT, 'user_id': 'u' * 32,
            'power_state': states.POWER_RUNNING, 'agent_state': 'connected',
            'flavor': {'name': 'tiny', 'vcpus': 1}, 'image_id': None,
            'launched_at': '2026-01-31T23:59:59.000001',
            'volumes': [volume()]}
    return {**told, **values}


def report(*told, host=HOST, gone=(), full=True, digest='d'):
    """Report servers; returns which are shown as quiesced."""
    return inventory.apply(host, list(told), list(gone), full, digest)


def outcome(kind, request_id, result='success', freeze_id=None, **values):
    """An outcome as a worker reports it."""
    told = {'id': str(uuid.uuid4()), 'kind': kind, 'server_id': WEB,
            'request_id': request_id,
            'freeze_id': request_id if kind == 'quiesce' else freeze_id,
            'result': result, 'reason': None, 'message': f'{kind} {result}',
            'detail': None, 'filesystems': None, 'thawed': None,
            'verified_thawed': None,
            'started_at': '2026-01-31T10:00:00.000001',
            'finished_at': '2026-01-31T10:00:01.000001',
            'frozen_at': None, 'ended_at': None, 'timeout': 60.0,
            'freeze_call': None, 'thaw_call': None, 'frozen_for': None}
    if kind == 'quiesce' and result == 'success':
        told.update(filesystems=2, frozen_at='2026-01-31T10:00:00.500000',
                    freeze_call=0.25)
    return {**told, **values}


def apply(*args, host=HOST, **values):
    """Apply an outcome that is built from the arguments."""
    return outcomes.apply(host, outcome(*args, **values))


def begin(request, timeout=60.0):
    """Begin a request; returns its id."""
    who = ctxt()
    transitions.begin(who, WEB, request,
                      timeout if request == 'quiesce' else None)
    return who.request_id


def quiesced():
    """Report and quiesce a server; returns the freeze's id."""
    report(server())
    freeze_id = begin('quiesce')
    assert apply('quiesce', freeze_id) == 'applied'
    return freeze_id


def state(uuid=WEB):
    """The pair of vm_state and task_state of a server."""
    row = servers.get(uuid, deleted=True)
    return row['vm_state'], row['task_state']


def freeze(freeze_id, uuid=WEB):
    """The row of a freeze."""
    with base.reader() as conn:
        return freezes.get(conn, uuid, freeze_id)


def action(request_id, uuid=WEB):
    """An action and the list of its events."""
    return actions.get(uuid, request_id)


def rows(table):
    """All rows of a table."""
    with base.reader() as conn:
        return conn.execute(sa.select(table).order_by(table.c.id)
                            ).mappings().all()


def fault_messages():
    """The messages of all faults."""
    return [row['message'] for row in rows(models.faults)]
