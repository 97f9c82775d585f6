# SPDX-License-Identifier: Apache-2.0
"""The embedded Stillframe, killed at a step of its work.

``python -m tests.integration.volume_snapshots.mined STEP --config-file ...``
is the real program; when it comes to the step (see STEPS), it gets SIGKILL
from itself, before or after the very call.
"""

from collections.abc import Callable
import dataclasses
import functools
import os
import signal
import sys
from typing import Any

from stillframe.clients import cinder
from stillframe.cmd import allinone
from stillframe.compute import intents
from stillframe.compute import outbox
from stillframe.compute import quiescing
from stillframe.compute import unquiescing
from stillframe.compute.imaging import imager
from stillframe.compute.libvirt import disks
from stillframe.rpc import conductor_api


def _always(*_arguments: Any) -> bool:
    return True


def _unclaimed(_self: Any, intent: intents.Intent) -> bool:
    return intent.claim is None


def _claimed(_self: Any, intent: intents.Intent) -> bool:
    return intent.claim is not None and intent.phase == intents.CLAIMED


def _changing(_self: Any, intent: intents.Intent) -> bool:
    return intent.phase == intents.CHANGING


def _of_snapshot(_self: Any, outcome: dict[str, Any]) -> bool:
    return outcome['kind'] == 'volume_snapshot'


def _reports_snapshot(_self: Any, _ctxt: Any, _host: str,
                      outcomes: list[dict[str, Any]]) -> bool:
    return any(_of_snapshot(_self, one) for one in outcomes)


def _completes(_self: Any, _snapshot_id: str,
               update: dict[str, Any]) -> bool:
    return update.get('progress') == cinder.COMPLETE_PROGRESS


@dataclasses.dataclass(frozen=True)
class Step:
    """Where the program is killed.

    :ivar after: after the call, else before it.
    :ivar when: looks at the call's arguments.
    """

    owner: type
    method: str
    after: bool
    when: Callable[..., bool] = _always


STEPS = {
    'before the intent': Step(intents.Intents, 'write', False, _unclaimed),
    'after the intent': Step(intents.Intents, 'write', True, _unclaimed),
    'claimed': Step(intents.Intents, 'write', True, _claimed),
    'about to change': Step(intents.Intents, 'write', True, _changing),
    'frozen before the switch': Step(disks.DomainDisks, 'switch', False),
    'switched': Step(disks.DomainDisks, 'switch', True),
    'job running': Step(disks.DomainDisks, 'start', True),
    'ready before the pivot': Step(disks.DomainDisks, 'pivot', False),
    'after the pivot': Step(disks.DomainDisks, 'pivot', True),
    'outcome not written': Step(outbox.Outbox, 'put', False, _of_snapshot),
    'outcome written': Step(conductor_api.ConductorAPI, 'report_outcomes',
                            False, _reports_snapshot),
    'outcome delivered': Step(conductor_api.ConductorAPI,
                              'report_outcomes', True, _reports_snapshot),
    'Cinder not told': Step(cinder.Cinder, 'update', False, _completes),
    'Cinder told': Step(cinder.Cinder, 'update', True, _completes),
}
#: The same of other work: a thread of the worker is about to begin it.
BEGINNINGS = {
    'quiesce': Step(quiescing.Quiescer, 'quiesce', False),
    'unquiesce': Step(unquiescing.Unquiescer, 'unquiesce', False),
    'reset': Step(unquiescing.Unquiescer, 'reset', False),
    'image': Step(imager.Imager, 'create', False),
}


def lay(step: Step) -> None:
    """Have this process killed at a step."""
    real = getattr(step.owner, step.method)

    @functools.wraps(real)
    def mined(*arguments: Any, **more: Any) -> Any:
        here = step.when(*arguments, **more)
        if here and not step.after:
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            return real(*arguments, **more)
        finally:
            if here:
                os.kill(os.getpid(), signal.SIGKILL)

    setattr(step.owner, step.method, mined)


if __name__ == '__main__':
    lay({**STEPS, **BEGINNINGS}[sys.argv.pop(1)])
    sys.exit(allinone.main())
