# SPDX-License-Identifier: Apache-2.0
"""What a child of the guard does: thaw one guest, once, and verify it."""

import threading

import libvirt

from stillframe.compute import clock
from stillframe.compute import journal
from stillframe.compute.libvirt import errors
from stillframe.compute.libvirt import freezing
from stillframe.compute.libvirt import guest
from stillframe.compute.libvirt.troubles import AgentTrouble
from stillframe.compute.libvirt.troubles import Trouble

_QUERY_TIMEOUT = 5.0
# A child does not go on for ever: the guard starts the next one.
_PATIENCE = 5.0


def thaw(server_id: str, record: journal.Record | None, uri: str,
         agent_timeout: float) -> journal.Result | None:
    """Thaw one guest.

    :param record: None when it could not be read.
    :param uri: libvirt, when the record does not say.
    :param agent_timeout: seconds for the thaw call.
    :return: None when it has to be tried again.
    """
    try:
        connection = libvirt.open(record.connection_uri if record else uri)
        domain = connection.lookupByUUIDString(server_id)
        done = _thaw(guest.Guest(domain, _QUERY_TIMEOUT), record,
                     agent_timeout)
    except libvirt.libvirtError as exc:
        trouble = errors.trouble(exc)
        if trouble.kind is not Trouble.GONE:
            raise trouble from exc
        done = None
    if done is not None:
        unsure = (record is not None and record.boot_id == clock.boot_id()
                  and clock.now() < record.may_freeze_until)
        if unsure or not done.verified:
            return None
    return _result(server_id, record, done)


def _thaw(found: guest.Guest, record: journal.Record | None,
          agent_timeout: float) -> freezing.Thaw | None:
    """Thaw a domain; None when what was frozen does not run any more."""
    try:
        run = found.run()
        if run.off:
            return None
        if record is not None and run.domain_id != record.domain_id:
            # Started anew. Restored from a file it carries its lease and is
            # as frozen as it was; else it has booted and is not.
            carried = found.lease()
            if carried is None or carried.request_id != record.request_id:
                return None
        return freezing.thaw(
            found.agent, agent_timeout,
            freezing.Patience(_PATIENCE, threading.Event()))
    except AgentTrouble as exc:
        if exc.kind is not Trouble.GONE:
            raise
        return None


def _result(server_id: str, record: journal.Record | None,
            done: freezing.Thaw | None) -> journal.Result:
    return journal.Result(
        server_id=server_id,
        request_id=record.request_id if record else None,
        gone=done is None,
        was_frozen=(done is not None
                    and done.before is freezing.Status.FROZEN),
        thawed=(done.count or 0) if done else 0,
        boot_id=clock.boot_id(),
        moment=(done and done.acknowledged) or clock.now(),
        at=clock.wall(),
        thaw_call=done.seconds if done else None)
