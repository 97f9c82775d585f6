# SPDX-License-Identifier: Apache-2.0
"""The fields of a node, and since which microversion each is shown.

A node has the fields that Ironic's has. Those behind which there is nothing
here have one value, always the same: no client has to do without a field,
and none is told something that is not so.
"""

from collections.abc import Mapping
import functools
import types
from typing import Any

from stillframe.api import baremetal_versions as versions

#: Fields with something behind them: since when, in the order shown.
LIVING: Mapping[str, int] = types.MappingProxyType({
    'uuid': 1,
    'name': versions.NAMES,
    'created_at': 1,
    'updated_at': 1,
    'driver': 1,
    'driver_info': 1,
    'driver_internal_info': 3,
    'properties': 1,
    'instance_info': 1,
    'instance_uuid': 1,
    'extra': 1,
    'power_state': 1,
    'target_power_state': 1,
    'provision_state': 1,
    'target_provision_state': 1,
    'provision_updated_at': 1,
    'last_error': 1,
    'maintenance': 1,
    'maintenance_reason': 1,
    'reservation': 1,
    'resource_class': versions.RESOURCE_CLASS,
    'boot_interface': 31,
    'management_interface': 31,
    'power_interface': 31,
    'fault': versions.FAULT,
    'conductor_group': versions.CONDUCTOR_GROUP,
    'conductor': versions.CONDUCTORS,
    'owner': versions.OWNER,
    'description': versions.DESCRIPTION,
    'lessee': versions.LESSEE,
    'boot_mode': 75,
    'snapshot_interface': versions.SNAPSHOT,
})

#: Fields with nothing behind them: since when, and the one value.
FIXED: Mapping[str, tuple[int, Any]] = types.MappingProxyType({
    'chassis_uuid': (1, None),
    'console_enabled': (1, False),
    'inspection_started_at': (6, None),
    'inspection_finished_at': (6, None),
    'clean_step': (7, {}),
    'raid_config': (12, {}),
    'target_raid_config': (12, {}),
    'network_interface': (20, 'noop'),
    'console_interface': (31, 'no-console'),
    'deploy_interface': (31, 'fake'),
    'inspect_interface': (31, 'no-inspect'),
    'raid_interface': (31, 'no-raid'),
    'vendor_interface': (31, 'no-vendor'),
    'storage_interface': (33, 'noop'),
    'traits': (37, []),
    'rescue_interface': (38, 'no-rescue'),
    'bios_interface': (40, 'no-bios'),
    'deploy_step': (44, {}),
    'automated_clean': (47, None),
    'protected': (48, False),
    'protected_reason': (48, None),
    'allocation_uuid': (52, None),
    'retired': (61, False),
    'retired_reason': (61, None),
    'network_data': (66, {}),
    'secure_boot': (75, None),
    'shard': (82, None),
    'parent_node': (83, None),
    'firmware_interface': (86, 'no-firmware'),
    'service_step': (87, {}),
    'disable_power_off': (95, False),
    'instance_name': (104, None),
    'health': (109, None),
})

#: Lists of links that a node shows, and what is behind each.
LINKED: Mapping[str, int] = types.MappingProxyType({
    'ports': 1,
    'states': 14,
})

#: Since when each field is there.
SINCE: Mapping[str, int] = types.MappingProxyType(
    {**LIVING, **{name: since for name, (since, _) in FIXED.items()},
     **LINKED, 'links': 1})

#: Fields for whoever may know of the hardware.
HARDWARE = frozenset(('driver_info', 'driver_internal_info', 'last_error',
                      'reservation'))


@functools.cache
def fixed(minor: int) -> Mapping[str, Any]:
    """Give the fields of a version that are always the same."""
    return {name: value for name, (since, value) in FIXED.items()
            if since <= minor}


@functools.cache
def living(minor: int) -> tuple[str, ...]:
    """Give the fields of a version with something behind them."""
    return tuple(name for name, since in LIVING.items() if since <= minor)


@functools.cache
def linked(minor: int) -> tuple[str, ...]:
    """Give the fields of a version that are links to more."""
    return tuple(name for name, since in LINKED.items() if since <= minor)
