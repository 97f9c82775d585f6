# SPDX-License-Identifier: Apache-2.0
"""All that can be ordered of the agent that stands alone.

Where ironic-python-agent has a command of the same name, it means the same.
"""

import os
from typing import Any

from stillframe.agent import command_errors
from stillframe.agent import commands
from stillframe.agent import failures
from stillframe.agent import inventory
from stillframe.agent import orders
from stillframe.agent import power
from stillframe.agent import snapshot


def build(may_power_off: bool) -> dict[str, dict[str, commands.Command]]:
    """Make the table of commands.

    :param may_power_off: this machine was booted for the agent.
    :return: commands by name, by extension.
    """
    snapshots = snapshot.Snapshots()
    ending = power.Power(may_power_off)

    def check(**order: Any) -> None:
        try:
            orders.Order.parse(order)
        except failures.BadOrder as exc:
            raise command_errors.InvalidCommandParamsError(
                str(exc)) from exc

    def stream_image(**order: Any) -> dict[str, Any]:
        return snapshots.stream_image(order)

    return {
        'snapshot': {
            'stream_image': commands.Command(
                stream_image, background=True, check=check,
                stop=snapshots.stop),
            'stop': commands.Command(snapshots.stop, while_busy=True),
            'ping': commands.Command(snapshots.ping, while_busy=True)},
        'standby': {
            'sync': commands.Command(os.sync),
            'power_off': commands.Command(ending.off, background=True),
            'run_image': commands.Command(ending.reboot, background=True)},
        'poll': {
            'get_hardware_info': commands.Command(inventory.hardware_info)}}
