# SPDX-License-Identifier: Apache-2.0
"""What to report when a freeze ends: a pure function of what was seen."""

from stillframe.compute import clock
from stillframe.compute import journal
from stillframe.compute import outcomes
from stillframe.compute.libvirt import freezing
from stillframe.rpc import payloads
from stillframe.states.servers import Result


def conclude(record: journal.Record, ending: journal.Ending,
             done: freezing.Thaw, found: journal.Result | None
             ) -> payloads.Outcome | None:
    """Give the outcome of ending a freeze.

    :param ending: the record's; why it ends, and whom to tell.
    :param done: how the thaw went; not verified when it was given up.
    :param found: what the guard had done before, if it had.
    :return: None when there is nothing to tell.
    """
    conclusion = _BY_KIND[ending.kind](record, ending, done, found)
    if conclusion is None:
        return None
    result, reason, message = conclusion
    return outcomes.of_record(
        record, ending.kind, ending.request_id, result, message,
        done=done, found=found, reason=reason, state=ending.state,
        started_at=ending.started_at,
        detail=ending.detail or (str(done.trouble) if done.trouble
                                 else None))


_Conclusion = tuple[Result, str | None, str] | None


def _quiesce(record: journal.Record, ending: journal.Ending,
             done: freezing.Thaw, found: journal.Result | None
             ) -> _Conclusion:
    message = ending.message or 'Quiescing the server failed.'
    if done.verified:
        return (Result.FAILED, ending.reason,
                f'{message} The server was thawed and is writing again.')
    return (Result.FAILED, ending.reason,
            f'{message} {outcomes.STILL_TRYING}')


def _unquiesce(record: journal.Record, ending: journal.Ending,
               done: freezing.Thaw, found: journal.Result | None
               ) -> _Conclusion:
    if not done.verified:
        return (Result.FAILED, 'agent',
                'The server could not be thawed, since its guest agent '
                f'does not answer. {outcomes.STILL_TRYING}')
    if done.before is freezing.Status.THAWED:
        return _found_thawed(record, found)
    if not done.clean:
        return (Result.FAILED, 'agent',
                'Thawing the server went wrong at first; it is thawed now. '
                'The snapshots that were taken while it was quiesced are '
                'good.')
    if record.filesystems and (done.count or 0) < record.filesystems:
        missing = record.filesystems - (done.count or 0)
        return (Result.LOST, 'thawed_by_guest',
                f'{missing} of {record.filesystems} file systems had been '
                f'thawed before. {outcomes.AGAIN}')
    return Result.SUCCESS, None, 'The server was thawed.'


def _found_thawed(record: journal.Record, found: journal.Result | None
                  ) -> _Conclusion:
    """Say what it means that a server which is to be thawed was thawed."""
    if found is not None and found.was_frozen or record.remaining() <= 0:
        return (Result.LOST, 'deadline',
                f'{outcomes.ENDED["deadline"]} before this request could '
                f'do it. {outcomes.AGAIN}')
    return (Result.LOST, 'thawed_by_guest',
            f'{outcomes.ENDED["thawed_by_guest"]}; when, is not known. '
            f'{outcomes.AGAIN}')


def _reset(record: journal.Record, ending: journal.Ending,
           done: freezing.Thaw, found: journal.Result | None
           ) -> _Conclusion:
    if done.verified:
        return Result.SUCCESS, None, 'The server was seen thawed.'
    return (Result.SUCCESS, 'agent',
            'The state was reset, but the server could not be seen '
            f'thawed. {outcomes.STILL_TRYING}')


def _freeze_ended(record: journal.Record, ending: journal.Ending,
                  done: freezing.Thaw, found: journal.Result | None
                  ) -> _Conclusion:
    reason = ending.reason or 'lost'
    begin = outcomes.ENDED[reason]
    if not done.verified:
        return (Result.FAILED, reason,
                'The freeze has to end, but the server could not be '
                f'thawed. {outcomes.STILL_TRYING} If the server is paused, '
                'resume it.')
    if done.before is freezing.Status.THAWED and found is None:
        if reason == 'deadline':
            reason = 'thawed_by_guest'
            begin = outcomes.ENDED[reason]
        return Result.LOST, reason, f'{begin}. {outcomes.AGAIN}'
    return Result.SUCCESS, reason, f'{begin}. {outcomes.AGAIN}'


def _thawed(record: journal.Record, ending: journal.Ending,
            done: freezing.Thaw, found: journal.Result | None
            ) -> _Conclusion:
    if not done.verified:
        return None
    return (Result.SUCCESS, ending.reason,
            'The server is thawed now and is writing again.')


def _watched(record: journal.Record, ending: journal.Ending,
             done: freezing.Thaw, found: journal.Result | None
             ) -> _Conclusion:
    return None


#: A guest that was seen thawed, and is looked at until its freeze call can
#: no longer reach it; nothing of that is reported.
WATCHED = 'watched'

_BY_KIND = {
    'quiesce': _quiesce,
    'unquiesce': _unquiesce,
    'reset': _reset,
    'freeze_ended': _freeze_ended,
    'thawed': _thawed,
    WATCHED: _watched,
}


def unreported(record: journal.Record) -> journal.Ending:
    """Make the ending of a brief freeze: of it nobody is told."""
    return journal.Ending(WATCHED, record.request_id, 'brief', clock.wall(),
                          told=True)


def stopped(record: journal.Record, reason: str
            ) -> payloads.Outcome | None:
    """Give the outcome when the guest is gone, with its freeze.

    :param reason: ``stopped`` or ``rebooted``.
    """
    ending = record.ending
    begin = outcomes.ENDED[reason]
    if ending is None:
        return outcomes.of_record(
            record, 'freeze_ended', outcomes.new_request_id(), Result.LOST,
            f'{begin}. {outcomes.AGAIN}', reason=reason,
            ended_at=clock.wall(), started_at=clock.wall())
    if ending.kind == WATCHED:
        return None
    result, message = {
        'quiesce': (Result.FAILED,
                    'The server was stopped while it was being quiesced.'),
        'unquiesce': (Result.LOST, f'{begin}. {outcomes.AGAIN}'),
        'reset': (Result.SUCCESS,
                  'The server is not running, so it is not frozen.'),
        'freeze_ended': (Result.LOST, f'{begin}. {outcomes.AGAIN}'),
        'thawed': (Result.SUCCESS,
                   'The server is not running any more, so it is not '
                   'frozen.'),
    }[ending.kind]
    return outcomes.of_record(
        record, ending.kind, ending.request_id, result, message,
        reason=reason, state=ending.state, ended_at=clock.wall(),
        started_at=ending.started_at, detail=ending.detail)


def moved(record: journal.Record) -> payloads.Outcome | None:
    """Give the outcome when the guest left for another host.

    Its freeze went with it, so only a request that was on its way here has
    to be answered.
    """
    ending = record.ending
    if ending is None:
        return None
    if ending.kind == 'unquiesce':
        return outcomes.declined(
            ending.request_id, record.server_id, record.request_id,
            ending.started_at, 'moved',
            'The server has just moved to another host.')
    if ending.kind == 'reset':
        return outcomes.reset_without_thaw(
            record.server_id, ending, False, 'The server has just moved to '
            'another host and was not seen thawed.')
    if ending.kind == 'quiesce':
        return outcomes.of_record(
            record, 'quiesce', ending.request_id, Result.FAILED,
            'The server moved to another host while it was being quiesced. '
            'It may still be frozen, and is thawed there.', reason='moved',
            detail=ending.detail)
    return None
