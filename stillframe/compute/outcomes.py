# SPDX-License-Identifier: Apache-2.0
"""Builds the outcomes that are reported, with their sentences.

Pure functions. The sentences may be read by any user of the server: they
say what happened and what to do, and name no path, host or other tenant.
"""

from typing import Any
import uuid

from stillframe.compute import clock
from stillframe.compute import journal
from stillframe.compute.libvirt import freezing
from stillframe.compute.libvirt.troubles import Trouble
from stillframe.rpc import payloads
from stillframe.states.servers import Result

# An outcome's id follows from what it is about, so that one which a killed
# worker had reported already is recognised when its successor does it too.
_NAMESPACE = uuid.UUID('9a7e5c1e-33f5-4d0e-a7a5-0d4a4f0a6c55')

#: Why a quiesce is refused, by trouble. "{timeout}" is filled in.
CANNOT_QUIESCE = {
    Trouble.NO_CHANNEL:
        'The server has no channel for the QEMU guest agent, so it cannot '
        'be quiesced. Give its image the property hw_qemu_guest_agent=yes '
        'and reboot it hard, or add the channel org.qemu.guest_agent.0 to '
        'its domain.',
    Trouble.NOT_CONNECTED:
        'No guest agent is running in the server, so it cannot be '
        'quiesced. Install and start qemu-guest-agent in it and try again.',
    Trouble.UNSUPPORTED:
        'The guest agent of the server does not offer freezing, so it '
        'cannot be quiesced. Allow the guest-fsfreeze commands in its '
        'configuration, or update it.',
    Trouble.NOT_RUNNING:
        'The server is not running, so it cannot be quiesced. A paused or '
        'suspended server has to be resumed first.',
    Trouble.GONE:
        'The server is not running on its host any more, so it cannot be '
        'quiesced.',
    Trouble.BUSY:
        'The guest agent of the server is busy with another command, so it '
        'was not quiesced. Try again.',
    Trouble.FROZEN:
        'The server was frozen already by something else, so it was not '
        'quiesced. Thaw it with whatever froze it, then try again.',
    Trouble.SILENT:
        'The guest agent of the server is connected but does not answer, '
        'so nothing was frozen. Look after the agent in the server, then '
        'try again.',
    Trouble.REFUSED:
        'The guest agent of the server could not say whether it is '
        'frozen, so nothing was frozen. Look after the agent in the '
        'server, then try again.',
    Trouble.CONNECTION:
        'The hypervisor does not answer, so nothing was frozen. Try again '
        'in a moment.',
}

#: How the sentence about a freeze that ended unasked begins, by reason.
ENDED = {
    'deadline': 'The deadline of the freeze passed, so the server was '
                'thawed',
    'rebooted': 'The server was rebooted while it was quiesced, which '
                'ended the freeze',
    'stopped': 'The server was stopped while it was quiesced, which ended '
               'the freeze',
    'thawed_by_guest': 'The server was thawed from inside or by something '
                       'else while it was quiesced',
    'stale': 'Nobody was waiting for the freeze any more, so the server '
             'was thawed',
    'restarted': 'The host was restarted while the server was quiesced, '
                 'which ended the freeze',
    'lost': 'The server was found not to be quiesced',
}

AGAIN = ('Snapshots that were not complete by then are not consistent: '
         'quiesce the server and take them again.')
STILL_TRYING = ('It may still be frozen. Thawing it is tried again and '
                'again until it is seen thawed.')


def outcome_id(kind: str, request_id: str) -> str:
    """Give the id of the one outcome of this kind for a request."""
    return str(uuid.uuid5(_NAMESPACE, f'{kind} {request_id}'))


def new_request_id() -> str:
    """Make the request id of an action that the worker itself begins."""
    return f'req-{uuid.uuid4()}'


def outcome(kind: str, server_id: str, request_id: str, result: Result,
            message: str, *, started_at: str, freeze_id: str | None = None,
            **more: Any) -> payloads.Outcome:
    """Build an outcome; see :class:`stillframe.rpc.payloads.Outcome`.

    :param more: its other fields, None where not given.
    """
    made: dict[str, Any] = dict.fromkeys(
        payloads.Outcome.__required_keys__)
    made.update(
        more, id=outcome_id(kind, request_id), kind=kind,
        server_id=server_id, request_id=request_id, freeze_id=freeze_id,
        result=str(result), message=message, started_at=started_at,
        finished_at=clock.wall())
    return made  # type: ignore[return-value]


def of_record(record: journal.Record, kind: str, request_id: str,
              result: Result, message: str, *,
              done: freezing.Thaw | None = None,
              found: journal.Result | None = None,
              **more: Any) -> payloads.Outcome:
    """Build an outcome about a freeze, with all that is known of it.

    :param done: how the thaw went.
    :param found: what the guard did.
    """
    fields: dict[str, Any] = {
        'filesystems': record.filesystems, 'frozen_at': record.frozen_at,
        'timeout': record.timeout, 'freeze_call': record.freeze_call,
        'started_at': record.started_at}
    ended = None
    if done is not None:
        fields.update(verified_thawed=done.verified, thawed=done.count,
                      thaw_call=done.seconds)
        ended = done.acknowledged
        if done.trouble is not None:
            fields['detail'] = str(done.trouble)
    if found is not None and not (done and done.count):
        fields.update(verified_thawed=not found.gone, thawed=found.thawed,
                      thaw_call=found.thaw_call, ended_at=found.at)
        ended = found.moment
    same_boot = record.boot_id == clock.boot_id()
    if ended is not None and same_boot and record.called:
        fields['frozen_for'] = ended - record.called
        fields['ended_at'] = clock.wall_at(ended)
    fields.update(more)
    return outcome(kind, record.server_id, request_id, result, message,
                   freeze_id=record.request_id, **fields)


def declined(request_id: str, server_id: str, freeze_id: str,
             started_at: str, reason: str, why: str) -> payloads.Outcome:
    """Build the outcome of an unquiesce that did nothing."""
    return outcome(
        'unquiesce', server_id, request_id, Result.CANNOT,
        f'{why} The server was not thawed and stays quiesced until its '
        'deadline. Try again.', reason=reason, freeze_id=freeze_id,
        started_at=started_at)


def reset_without_thaw(server_id: str, ending: journal.Ending,
                       verified: bool | None, message: str
                       ) -> payloads.Outcome:
    """Build the outcome of a reset that had nothing (more) to thaw.

    :param verified: whether the server was seen thawed.
    """
    return outcome(
        'reset', server_id, ending.request_id, Result.SUCCESS, message,
        verified_thawed=verified, state=ending.state,
        started_at=ending.started_at)
