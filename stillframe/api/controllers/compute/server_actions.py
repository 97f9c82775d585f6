# SPDX-License-Identifier: Apache-2.0
"""POST /servers/{id}/action: the verbs.

Those of quiesce, unquiesce and os-resetState are here.
"""

from collections.abc import Callable
from typing import Any

from oslo_log import log
import sqlalchemy as sa

from stillframe import context
from stillframe import exceptions
from stillframe.api import request
from stillframe.api.controllers import base
from stillframe.api.controllers.compute import server_images
from stillframe.api.schemas import server_actions as schemas
from stillframe.api.schemas import server_images as image_schemas
from stillframe.api.schemas import validation
from stillframe.db import servers as db
from stillframe.db import transitions
from stillframe.policies import server_actions as policies
from stillframe.policies import server_images as image_policies
from stillframe.states import servers as states

LOG = log.getLogger(__name__)

_NOT_SENT = ('The request could not be handed to the compute worker, so '
             'nothing was done to the guest. Try again in a moment.')
_RESET = 'The state was set to {state}; no guest needed a thaw.'
_RESET_UNTHAWED = (
    'The state was set to {state}, but the guest could not be thawed now: '
    '{reason}. If it is frozen, its deadline thaws it.')


class ServerActionsController:
    """Freezes, thaws and resets servers.

    The state is asked before the host, so that a caller learns of a wrong
    state even while the worker is down. What is decided here is only a
    courtesy: the move itself is one compare-and-swap in the database.
    """

    def __init__(self, services: base.Services):
        self._services = services
        # The worker keeps to the ceiling whatever it is told; what is
        # recorded and shown here has to be the same.
        self._default_timeout = min(services.conf.quiesce.default_timeout,
                                    services.conf.quiesce.max_timeout)
        self._images = server_images.ServerImages(services)
        self._actions: dict[str, tuple[validation.Validator, str,
                                       Callable[..., Any]]] = {
            'quiesce': (
                validation.Validator(schemas.quiesce(
                    services.conf.quiesce.max_timeout)),
                policies.QUIESCE, self._quiesce),
            'unquiesce': (
                validation.Validator(schemas.UNQUIESCE),
                policies.UNQUIESCE, self._unquiesce),
            'os-resetState': (
                validation.Validator(schemas.RESET_STATE),
                policies.RESET_STATE, self._reset_state),
            'createImage': (
                validation.Validator(image_schemas.CREATE_IMAGE),
                image_policies.CREATE, self._images.create),
        }

    @base.expose
    def act(self, req: request.Request, resp: Any, server_id: str) -> Any:
        """Do what the one key of the body says."""
        body = req.document()
        if not isinstance(body, dict) or len(body) != 1:
            raise exceptions.BadRequest(
                'Malformed request body: it must be an object with exactly '
                'one key, the action.')
        (name, wish), = body.items()
        if name not in self._actions:
            raise exceptions.BadRequest(
                f'There is no such action: {name[:64]}')
        validator, rule, perform = self._actions[name]
        validator.check(body, req.legacy)
        row = db.get(server_id)
        self._services.policy.check_server(req.ctxt, rule, row)
        if perform == self._images.create:
            return self._images.answer(
                req, resp, self._images.create(req, row, wish))
        perform(req.ctxt, row, wish or {})
        LOG.info('Accepted %s of server %s', name, row['uuid'])
        return base.accepted(resp)

    def _quiesce(self, ctxt: context.RequestContext, row: sa.RowMapping,
                 wish: dict[str, Any]) -> None:
        timeout = wish.get('timeout')
        if timeout is None:
            timeout = self._default_timeout
        moved = self._begin(ctxt, row, 'quiesce', float(timeout))
        self._hand_out(
            ctxt, moved, self._services.compute.quiesce_server,
            timeout=float(timeout), mountpoints=wish.get('mountpoints'))

    def _unquiesce(self, ctxt: context.RequestContext, row: sa.RowMapping,
                   wish: dict[str, Any]) -> None:
        moved = self._begin(ctxt, row, 'unquiesce')
        self._hand_out(
            ctxt, moved, self._services.compute.unquiesce_server,
            freeze_id=moved['freeze_id'])

    def _begin(self, ctxt: context.RequestContext, row: sa.RowMapping,
               name: str, timeout: float | None = None) -> sa.RowMapping:
        if not states.can(name, row['vm_state'], row['task_state']):
            # Says why, from what is in the database now.
            row = transitions.check(row['uuid'], name)
        worker = self._services.workers.get(row['host'])
        if worker is None or not worker.up:
            if not self._services.workers.blind():
                raise exceptions.HostDown(
                    action=name, server=row['uuid'],
                    last_seen='never' if worker is None
                    else transitions.iso(worker.row['last_seen']))
            if name != 'unquiesce':
                raise exceptions.ServiceUnavailable(
                    service='The conductor', what=f'the {name}')
            # A thaw needs no conductor, only its outcome does: the worker
            # gets it, if it is there.
        return transitions.begin(ctxt, row['uuid'], name, timeout)

    def _hand_out(self, ctxt: context.RequestContext, row: sa.RowMapping,
                  cast: Callable[..., None], **kwargs: Any) -> None:
        try:
            cast(ctxt, row['host'], row['uuid'], **kwargs)
        except Exception:
            # Whatever it is, the server must not be left in a task that
            # nobody works on; the error goes on, and is logged.
            transitions.revert(row['uuid'], ctxt.request_id, _NOT_SENT)
            raise

    def _reset_state(self, ctxt: context.RequestContext,
                     row: sa.RowMapping, wish: dict[str, Any]) -> None:
        uuid, state = row['uuid'], wish['state']
        if not states.reset_thaws(row['vm_state'], row['task_state']):
            transitions.reset_now(ctxt, uuid, state,
                                  _RESET.format(state=state))
            return
        worker = self._services.workers.get(row['host'])
        if ((worker is None or not worker.up)
                and not self._services.workers.blind()):
            transitions.reset_now(
                ctxt, uuid, state, _RESET_UNTHAWED.format(
                    state=state, reason='the compute worker of its host '
                                        'is down'))
            return
        row = transitions.begin_reset(ctxt, uuid)
        try:
            self._services.compute.reset_server(
                ctxt, row['host'], uuid, state)
        except exceptions.ServiceUnavailable:
            transitions.reset_now(
                ctxt, uuid, state, _RESET_UNTHAWED.format(
                    state=state,
                    reason='the message broker does not answer'))
