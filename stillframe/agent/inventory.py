# SPDX-License-Identifier: Apache-2.0
"""What this machine is made of, in the words of ironic-python-agent.

As much as an operator needs to write hints for the root device and to
enrol ports; the rest of that agent's inventory is left out.
"""

import os
import pathlib
import platform
from typing import Any

from stillframe.agent import addresses
from stillframe.agent import disks

_EFI = pathlib.Path('/sys/firmware/efi')


def hardware_info() -> dict[str, Any]:
    """Describe network cards, disks, memory, processors and boot mode.

    :raises OSError: sysfs cannot be read.
    """
    memory = os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES')
    return {
        'hostname': platform.node(),
        'interfaces': addresses.cards(),
        'disks': disks.describe(),
        'memory': {'total': memory, 'physical_mb': memory >> 20},
        'cpu': {'count': os.cpu_count(),
                'architecture': platform.machine()},
        'boot': {'current_boot_mode':
                 'uefi' if _EFI.exists() else 'bios'}}
