# SPDX-License-Identifier: Apache-2.0
"""Errors as libvirt gives them, and what they mean."""

import libvirt
import pytest

from stillframe.compute.libvirt import errors
from stillframe.compute.libvirt.troubles import AgentTrouble
from stillframe.compute.libvirt.troubles import Trouble

FREEZE = ("internal error: unable to execute QEMU agent command "
          "'guest-fsfreeze-freeze': ")
SILENT = 'Guest agent is not responding: '

# What libvirt 9.0 with QEMU 7.2 was seen to say.
SEEN = [
    (74, 'argument unsupported: QEMU guest agent is not configured',
     Trouble.NO_CHANNEL),
    (86, SILENT + 'QEMU guest agent is not connected',
     Trouble.NOT_CONNECTED),
    (86, SILENT + 'Guest agent disappeared while executing command',
     Trouble.SILENT),
    (86, SILENT + 'Guest agent not available for now', Trouble.SILENT),
    (1, FREEZE + 'Command guest-fsfreeze-freeze has been disabled: the '
     'agent is in frozen state', Trouble.FROZEN),
    (1, FREEZE + 'Command guest-fsfreeze-freeze has been disabled',
     Trouble.UNSUPPORTED),
    (1, FREEZE + 'The command guest-fsfreeze-freeze has not been found',
     Trouble.UNSUPPORTED),
    (1, FREEZE + 'fsfreeze hook has failed with status 1',
     Trouble.REFUSED),
    (1, FREEZE + 'failed to open /mnt: Permission denied',
     Trouble.REFUSED),
    (1, 'internal error: client socket is closed', Trouble.CONNECTION),
    (55, 'Requested operation is not valid: domain is not running',
     Trouble.NOT_RUNNING),
    (42, 'Domain not found: no domain with matching uuid', Trouble.GONE),
    (68, 'Timed out during operation: cannot acquire state change lock '
     '(held by agent=remoteDispatchDomainFsfreeze)', Trouble.BUSY),
    (3, 'this function is not supported by the connection driver: '
     'virDomainFSFreeze', Trouble.UNSUPPORTED),
    (38, 'Cannot recv data: Connection reset by peer', Trouble.CONNECTION),
    (None, '', Trouble.CONNECTION),
    (12345, 'something new', Trouble.REFUSED),
]


@pytest.mark.parametrize(('code', 'text', 'kind'), SEEN)
def test_what_was_seen(code, text, kind):
    assert errors.classify(code, text) is kind


def test_codes_that_later_versions_have(monkeypatch):
    monkeypatch.setattr(libvirt, 'VIR_ERR_AGENT_COMMAND_TIMEOUT', 111,
                        raising=False)
    assert 111 in errors._codes('AGENT_COMMAND_TIMEOUT')
    assert errors._codes('NO_SUCH_CODE') == frozenset()


def test_only_what_certainly_did_nothing_counts_as_nothing_done():
    """A new kind of trouble must not count as harmless by accident."""
    harmless = {kind for kind in Trouble
                if AgentTrouble(kind, '').nothing_done}
    assert harmless == {
        Trouble.NO_CHANNEL, Trouble.NOT_CONNECTED, Trouble.UNSUPPORTED,
        Trouble.NOT_RUNNING, Trouble.GONE, Trouble.BUSY, Trouble.FROZEN}
