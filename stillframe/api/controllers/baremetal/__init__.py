# SPDX-License-Identifier: Apache-2.0
"""The bare-metal dialect: its resources, one module each."""

from stillframe.api import routing
from stillframe.api.controllers import base
from stillframe.api.controllers.baremetal import boot
from stillframe.api.controllers.baremetal import conductors
from stillframe.api.controllers.baremetal import drivers
from stillframe.api.controllers.baremetal import node_management
from stillframe.api.controllers.baremetal import node_records
from stillframe.api.controllers.baremetal import node_snapshots
from stillframe.api.controllers.baremetal import node_states
from stillframe.api.controllers.baremetal import nodes
from stillframe.api.controllers.baremetal import ports
from stillframe.api.controllers.baremetal import ramdisk


def routes(services: base.Services) -> routing.Table:
    """Give the table of the dialect's paths."""
    read = nodes.NodesController(services)
    record = node_records.NodeRecordsController(services)
    moving = node_states.NodeStatesController(services)
    managing = node_management.NodeManagementController(services)
    done = node_snapshots.NodeSnapshotsController(services)
    cards = ports.PortsController(services)
    types = drivers.DriversController(services)
    hosts = conductors.ConductorsController(services)
    agent = ramdisk.RamdiskController(services)
    one = 'nodes/{}'
    device = f'{one}/management/boot_device'
    return routing.Table((
        ('GET', 'nodes', read.index),
        ('POST', 'nodes', record.create),
        ('GET', 'nodes/detail', read.detail),
        ('GET', one, read.show),
        ('PATCH', one, record.update),
        ('DELETE', one, record.delete),
        ('PUT', f'{one}/maintenance', record.set_maintenance),
        ('DELETE', f'{one}/maintenance', record.clear_maintenance),
        ('GET', f'{one}/validate', managing.validate),
        ('GET', f'{one}/states', moving.show),
        ('PUT', f'{one}/states/provision', moving.provision),
        ('PUT', f'{one}/states/power', moving.power),
        ('GET', device, managing.get_boot_device),
        ('PUT', device, managing.set_boot_device),
        ('GET', f'{device}/supported', managing.supported),
        ('GET', f'{one}/snapshot', done.show),
        ('GET', f'{one}/history', done.history),
        ('GET', f'{one}/history/{{}}', done.entry),
        ('GET', f'{one}/ports', cards.of_node),
        ('GET', f'{one}/ports/detail', cards.detail_of_node),
        ('GET', 'ports', cards.index),
        ('POST', 'ports', cards.create),
        ('GET', 'ports/detail', cards.detail),
        ('GET', 'ports/{}', cards.show),
        ('PATCH', 'ports/{}', cards.update),
        ('DELETE', 'ports/{}', cards.delete),
        ('GET', 'drivers', types.index),
        ('GET', 'drivers/{}', types.show),
        ('GET', 'drivers/{}/properties', types.properties),
        ('GET', 'conductors', hosts.index),
        ('GET', 'conductors/{}', hosts.show),
        ('GET', 'lookup', agent.lookup),
        ('POST', 'heartbeat/{}', agent.heartbeat),
    ))


def boot_routes(services: base.Services) -> routing.Table:
    """Give the table of what machines fetch while they boot."""
    scripts = boot.BootController(services)
    return routing.Table((
        ('GET', 'ipxe/{}', scripts.script),
    ))
