# SPDX-License-Identifier: Apache-2.0
"""The compute dialect: its resources, one module each."""

from stillframe.api import routing
from stillframe.api.controllers import base
from stillframe.api.controllers.compute import assisted_volume_snapshots
from stillframe.api.controllers.compute import instance_actions
from stillframe.api.controllers.compute import server_actions
from stillframe.api.controllers.compute import servers
from stillframe.api.controllers.compute import services as os_services
from stillframe.api.controllers.compute import volume_attachments


def routes(services: base.Services) -> routing.Table:
    """Give the table of the dialect's paths."""
    read = servers.ServersController(services)
    act = server_actions.ServerActionsController(services)
    volumes = volume_attachments.VolumeAttachmentsController(services)
    done = instance_actions.InstanceActionsController(services)
    alive = os_services.ServicesController(services)
    assisted = assisted_volume_snapshots.AssistedVolumeSnapshotsController(
        services)
    one = 'servers/{}'
    snapshots = 'os-assisted-volume-snapshots'
    return routing.Table((
        ('GET', 'servers', read.index),
        ('GET', 'servers/detail', read.detail),
        ('GET', one, read.show),
        ('POST', f'{one}/action', act.act),
        ('GET', f'{one}/os-instance-actions', done.index),
        ('GET', f'{one}/os-instance-actions/{{}}', done.show),
        ('GET', f'{one}/os-volume_attachments', volumes.index),
        ('GET', f'{one}/os-volume_attachments/{{}}', volumes.show),
        ('GET', 'os-services', alive.index),
        ('POST', snapshots, assisted.create),
        ('GET', f'{snapshots}/{{}}', assisted.show),
        ('DELETE', f'{snapshots}/{{}}', assisted.delete),
    ))
