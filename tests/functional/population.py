# SPDX-License-Identifier: Apache-2.0
"""The servers that the functional tests find in the database.

They get there by the functions that the conductor uses for reports and
outcomes, so each is in a state that really comes about.
"""

from typing import Any
import uuid

from stillframe import context
from stillframe.db import inventory
from stillframe.db import outcomes
from stillframe.db import services
from stillframe.db import transitions

PROJECT = 'a' * 32
OTHER_PROJECT = 'b' * 32
USER = 'c' * 32

#: A host whose worker is up, and one whose worker never reported.
HOST_UP = 'host-a'
HOST_DOWN = 'host-b'

WEB = '11111111-1111-4111-8111-111111111111'
APP = '22222222-2222-4222-8222-222222222222'
BROKEN = '33333333-3333-4333-8333-333333333333'
GONE = '44444444-4444-4444-8444-444444444444'
OFF = '55555555-5555-4555-8555-555555555555'
FAR = '66666666-6666-4666-8666-666666666666'
LOST = '77777777-7777-4777-8777-777777777777'
THEIRS = '88888888-8888-4888-8888-888888888888'
FAR_FROZEN = '99999999-9999-4999-8999-999999999999'

#: Request ids of the quiesce requests by which servers got their states.
FREEZE = {
    APP: 'req-22222222-0000-4000-8000-000000000001',
    BROKEN: 'req-33333333-0000-4000-8000-000000000001',
    LOST: 'req-77777777-0000-4000-8000-000000000001',
    GONE: 'req-44444444-0000-4000-8000-000000000001',
    FAR_FROZEN: 'req-99999999-0000-4000-8000-000000000001',
}

IMAGE = 'eeeeeeee-eeee-4eee-8eee-eeeeeeeeeeee'

VOLUMES = {
    WEB: ('11111111-aaaa-4aaa-8aaa-000000000001',
          '11111111-aaaa-4aaa-8aaa-000000000002'),
    THEIRS: ('88888888-aaaa-4aaa-8aaa-000000000001',),
}

FLAVOR = {'name': 'm1.tiny', 'vcpus': 1, 'ram': 512, 'disk': 1,
          'ephemeral': 0, 'swap': 0}

_ON = 1
_OFF = 4

# Server, name, project, power state, launched at (and so created at).
_ON_HOST_UP = (
    (WEB, 'web', PROJECT, _ON, '2026-01-01T00:00:01.000000'),
    (APP, 'app', PROJECT, _ON, '2026-01-01T00:00:02.000000'),
    (BROKEN, 'broken', PROJECT, _ON, '2026-01-01T00:00:03.000000'),
    (GONE, 'gone', PROJECT, _ON, '2026-01-01T00:00:04.000000'),
    (OFF, 'off', PROJECT, _OFF, '2026-01-01T00:00:05.000000'),
    (LOST, 'lost', PROJECT, _ON, '2026-01-01T00:00:07.000000'),
    (THEIRS, 'theirs', OTHER_PROJECT, _ON, '2026-01-01T00:00:08.000000'),
)
_ON_HOST_DOWN = (
    (FAR, 'far', PROJECT, _ON, '2026-01-01T00:00:06.000000'),
    (FAR_FROZEN, 'far-frozen', PROJECT, _ON, '2026-01-01T00:00:09.000000'),
)


def populate() -> None:
    """Fill an empty database."""
    alive()
    inventory.apply(HOST_UP, [_server(*one) for one in _ON_HOST_UP], [],
                    True, 'digest-a')
    inventory.apply(HOST_DOWN, [_server(*one) for one in _ON_HOST_DOWN],
                    [], True, 'digest-b')
    for server in FREEZE:
        _quiesce(server, HOST_DOWN if server == FAR_FROZEN else HOST_UP)
    _end(BROKEN, 'unquiesce', 'failed',
         'The guest agent did not answer within 30 s.')
    _lose(LOST)
    inventory.apply(HOST_UP, [], [GONE], False, 'digest-a2')


def alive() -> None:
    """Report for the worker of the host that is up."""
    services.report(HOST_UP, services.COMPUTE,
                    '2026-01-01T00:00:00.000000', 1, {})


def _server(server: str, name: str, project: str, power: int,
            launched_at: str) -> Any:
    volumes = [
        {'volume_id': volume, 'target': f'vd{letter}',
         'device': f'/dev/vd{letter}', 'source': f'/disks/{volume}',
         'format': 'raw', 'read_only': False}
        for volume, letter in zip(VOLUMES.get(server, ()), 'abc',
                                  strict=False)]
    return {'uuid': server, 'name': name,
            'domain_name': f'instance-{server[:8]}', 'project_id': project,
            'user_id': USER, 'power_state': power,
            'agent_state': 'connected', 'flavor': FLAVOR,
            'image_id': IMAGE if server == WEB else None,
            'launched_at': launched_at, 'volumes': volumes}


def context_of(request_id: str) -> context.RequestContext:
    """Give the context of a request of the project's owner."""
    return context.RequestContext(
        user_id=USER, project_id=PROJECT, request_id=request_id,
        overwrite=False)


def _outcome(server: str, kind: str, result: str, request_id: str,
             message: str, **more: Any) -> Any:
    return {
        'id': str(uuid.uuid4()), 'kind': kind, 'server_id': server,
        'request_id': request_id, 'freeze_id': FREEZE[server],
        'result': result, 'reason': None, 'message': message,
        'detail': 'for administrators', 'filesystems': 2, 'thawed': None,
        'verified_thawed': None,
        'started_at': '2026-01-02T00:00:00.000000',
        'finished_at': '2026-01-02T00:00:01.000000',
        'frozen_at': '2026-01-02T00:00:00.500000', 'ended_at': None,
        'timeout': 60.0, 'freeze_call': 0.5, 'thaw_call': None,
        'frozen_for': None, **more}


def _quiesce(server: str, host: str) -> None:
    transitions.begin(context_of(FREEZE[server]), server, 'quiesce', 60.0)
    outcomes.apply(host, _outcome(
        server, 'quiesce', 'success', FREEZE[server],
        'Frozen: 2 file systems.'))


def _end(server: str, request: str, result: str, message: str) -> None:
    request_id = FREEZE[server][:-1] + '2'
    transitions.begin(context_of(request_id), server, request)
    outcomes.apply(HOST_UP, _outcome(server, request, result, request_id,
                                     message, reason='agent'))


def _lose(server: str) -> None:
    outcomes.apply(HOST_UP, _outcome(
        server, 'freeze_ended', 'lost', FREEZE[server][:-1] + '2',
        'The deadline passed.', reason='deadline', verified_thawed=True,
        ended_at='2026-01-02T00:01:00.500000'))
