# SPDX-License-Identifier: Apache-2.0
"""What an error of libvirt means for a freeze.

libvirt's codes for the guest agent changed over the years: version 9 says
AGENT_UNRESPONSIVE or INTERNAL_ERROR where later ones have codes of their
own. So both code and text are used, and what is in neither table counts as
the worst case: sent, with unknown effect.

Standard library and libvirt only: the guard uses this too.
"""

import libvirt

from stillframe.compute.libvirt.troubles import AgentTrouble
from stillframe.compute.libvirt.troubles import Trouble


def _codes(*names: str) -> frozenset[int]:
    """Give the codes that this version of the library knows."""
    found = (getattr(libvirt, 'VIR_ERR_' + name, None) for name in names)
    return frozenset(code for code in found if code is not None)


_UNSUPPORTED = _codes('ARGUMENT_UNSUPPORTED', 'NO_SUPPORT',
                      'CONFIG_UNSUPPORTED', 'OPERATION_UNSUPPORTED')
_SILENT = _codes('AGENT_UNRESPONSIVE', 'AGENT_UNSYNCED',
                 'AGENT_COMMAND_TIMEOUT')
_ANSWERED = _codes('INTERNAL_ERROR', 'AGENT_COMMAND_FAILED')
_CONNECTION = _codes('INVALID_CONN', 'NO_CONNECT', 'RPC', 'SYSTEM_ERROR')
_SIMPLE = {
    libvirt.VIR_ERR_NO_DOMAIN: Trouble.GONE,
    libvirt.VIR_ERR_OPERATION_INVALID: Trouble.NOT_RUNNING,
    libvirt.VIR_ERR_OPERATION_TIMEOUT: Trouble.BUSY,
}


def classify(code: int | None, text: str) -> Trouble:
    """Tell the kind of trouble behind a libvirt error.

    :param code: a VIR_ERR number; None when libvirt gave none, as it does
        when the connection broke under a call.
    """
    if code is None or code in _CONNECTION:
        return Trouble.CONNECTION
    if code in _SIMPLE:
        return _SIMPLE[code]
    if code in _UNSUPPORTED:
        if 'agent is not configured' in text:
            return Trouble.NO_CHANNEL
        return Trouble.UNSUPPORTED
    if code in _SILENT:
        if 'not connected' in text:
            return Trouble.NOT_CONNECTED
        return Trouble.SILENT
    if code in _ANSWERED:
        return _answered(text)
    return Trouble.REFUSED


def _answered(text: str) -> Trouble:
    """Read the text of an error that comes from the agent itself."""
    if 'frozen state' in text:
        return Trouble.FROZEN
    if 'has not been found' in text or 'has been disabled' in text:
        return Trouble.UNSUPPORTED
    if 'client socket is closed' in text:
        return Trouble.CONNECTION
    return Trouble.REFUSED


def trouble(exc: libvirt.libvirtError) -> AgentTrouble:
    """Turn libvirt's exception into ours."""
    text = str(exc)
    return AgentTrouble(classify(exc.get_error_code(), text), text)
