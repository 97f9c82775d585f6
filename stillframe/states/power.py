# SPDX-License-Identifier: Apache-2.0
"""The power states of a bare-metal node, and what can be asked of them.

The words are Ironic's; clients send and compare them as they are.
"""

POWER_ON = 'power on'
POWER_OFF = 'power off'
REBOOT = 'rebooting'
SOFT_POWER_OFF = 'soft power off'
SOFT_REBOOT = 'soft rebooting'

#: What a client may ask for.
TARGETS = (POWER_ON, POWER_OFF, REBOOT, SOFT_POWER_OFF, SOFT_REBOOT)

#: Where a node is when a request was carried out.
RESULT = {
    POWER_ON: POWER_ON,
    POWER_OFF: POWER_OFF,
    REBOOT: POWER_ON,
    SOFT_POWER_OFF: POWER_OFF,
    SOFT_REBOOT: POWER_ON,
}
