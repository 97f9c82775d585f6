# SPDX-License-Identifier: Apache-2.0
"""What the conductor of a node is asked while the caller waits.

/v1/nodes/{ident}/validate and …/management/boot_device.
"""

from collections.abc import Mapping
from typing import Any

from stillframe import exceptions
from stillframe.api import request
from stillframe.api.controllers import base
from stillframe.api.controllers.baremetal import common
from stillframe.api.schemas import validation
from stillframe.api.schemas.baremetal import bodies
from stillframe.drivers import errors as driver_errors
from stillframe.policies import nodes as policies

# Seconds that a BMC gets to answer through its conductor.
_PATIENCE = 55.0

_DEVICE = validation.Validator({
    'type': 'object',
    'properties': {
        'boot_device': {'type': 'string', 'minLength': 1, 'maxLength': 64},
        'persistent': {'type': 'boolean'},
    },
    'required': ['boot_device'],
    'additionalProperties': False,
})


class NodeManagementController:
    """Asks the conductor of a node."""

    def __init__(self, services: base.Services):
        self._services = services

    @base.expose
    def validate(self, req: request.Request, resp: Any,
                 ident: str) -> dict[str, Any]:
        """Have the interfaces of a node checked."""
        node = common.read_node(req, self._services, ident,
                                policies.VALIDATE)
        return self._services.baremetal.validate_node(
            req.ctxt, self._services.ring.conductor_for(node),
            node['uuid'], _PATIENCE)

    @base.expose
    def supported(self, req: request.Request, resp: Any,
                  ident: str) -> dict[str, Any]:
        """Tell which boot devices a node may be given."""
        node = common.read_node(req, self._services, ident,
                                policies.GET_BOOT_DEVICE)
        try:
            management = self._services.drivers.build(node).management
        except driver_errors.DriverNotFound as exc:
            raise exceptions.BadRequest(
                f'{exc} The API needs it enabled to tell.') from exc
        return {'supported_boot_devices': list(
            management.supported_boot_devices(node))}

    @base.expose
    def get_boot_device(self, req: request.Request, resp: Any,
                        ident: str) -> dict[str, Any]:
        """Tell what a node boots from."""
        node = common.read_node(req, self._services, ident,
                                policies.GET_BOOT_DEVICE)
        found = self._services.baremetal.get_boot_device(
            req.ctxt, self._services.ring.conductor_for(node),
            node['uuid'], _PATIENCE)
        _check(found)
        return {'boot_device': found['boot_device'],
                'persistent': found['persistent']}

    @base.expose
    def set_boot_device(self, req: request.Request, resp: Any,
                        ident: str) -> Any:
        """Choose what a node boots from."""
        body = bodies.document(req)
        _DEVICE.check(body)
        node = common.read_node(req, self._services, ident,
                                policies.SET_BOOT_DEVICE)
        if node['reservation'] is not None:
            raise exceptions.NodeLocked(node=node['uuid'],
                                        host=node['reservation'])
        _check(self._services.baremetal.set_boot_device(
            req.ctxt, self._services.ring.conductor_for(node),
            node['uuid'], body['boot_device'],
            body.get('persistent', False), _PATIENCE))
        resp.status = 204
        resp.content_type = None
        return resp


def _check(answer: Mapping[str, Any] | None) -> None:
    """Refuse with the sentence of the driver, where it has one."""
    if answer is not None and answer.get('error') is not None:
        raise exceptions.BadRequest(answer['error'])
