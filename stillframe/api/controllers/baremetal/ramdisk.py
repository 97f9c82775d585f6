# SPDX-License-Identifier: Apache-2.0
"""/v1/lookup and /v1/heartbeat/{uuid}: a ramdisk says that it runs.

Nobody has to be known for them: a ramdisk has no identity. The state of the
node, and the token that the agent gets at its first lookup, keep others
away. Everything is checked and written here, without a lock; a conductor
hears of a heartbeat only where it waits for one.
"""

from typing import Any
import urllib.parse

from oslo_log import log
import sqlalchemy as sa

from stillframe import context
from stillframe import exceptions
from stillframe.api import baremetal_versions as versions
from stillframe.api import request
from stillframe.api.controllers import base
from stillframe.api.controllers.baremetal import callbacks
from stillframe.api.controllers.baremetal import common
from stillframe.api.schemas import validation
from stillframe.api.schemas.baremetal import bodies
from stillframe.api.schemas.baremetal import ports as ports_schema
from stillframe.api.views.baremetal import masking
from stillframe.db import node_agents
from stillframe.db import nodes as db
from stillframe.db import ports
from stillframe.states import nodes as states

LOG = log.getLogger(__name__)

_SHOWN = ('uuid', 'properties', 'instance_info', 'driver_internal_info')
_ADDRESSES_MAX = 256
_URL_MAX = 255

_TEXT = {'type': ['string', 'null'], 'maxLength': 255}
_HEARTBEAT = validation.Validator({
    'type': 'object',
    'properties': {
        'callback_url': {'type': 'string', 'maxLength': _URL_MAX},
        'agent_token': {'type': ['string', 'null'], 'maxLength': 255},
        'agent_version': {'type': ['string', 'null'], 'maxLength': 64},
        'agent_verify_ca': {'type': ['string', 'null'], 'maxLength': 16000},
        'agent_status': _TEXT,
        'agent_status_message': {'type': ['string', 'null']},
    },
    'required': ['callback_url'],
    'additionalProperties': False,
})
# Fields of a heartbeat, and since when.
_SINCE = {
    'agent_version': versions.AGENT_VERSION,
    'agent_token': versions.AGENT_TOKEN,
    'agent_verify_ca': versions.AGENT_VERIFY_CA,
    'agent_status': versions.AGENT_STATUS,
    'agent_status_message': versions.AGENT_STATUS,
}
_CERTIFICATE = '-----BEGIN CERTIFICATE-----'


class RamdiskController:
    """Answers ramdisks."""

    def __init__(self, services: base.Services):
        self._services = services
        conf = services.conf
        self._require_tls = conf.agent.require_tls
        self._callbacks = callbacks.Callbacks(conf.agent.callback_networks)
        # What ironic-python-agent takes over; what is null or empty leaves
        # it as it is.
        self._config = {
            'heartbeat_timeout': conf.baremetal.heartbeat_timeout,
            'agent_token_required': True,
            'metrics': {},
            'metrics_statsd': {},
            'agent_containers': {},
            'agent_md5_checksum_enable': False,
            'disable_deep_image_inspection': None,
            'permitted_image_formats': None,
            'agent_skip_bmc_detect': False,
            'enable_bios_bootloader_install': False,
            'tls_min_version': None,
            'tls_cipher_suites': None,
        }

    @base.expose
    def lookup(self, req: request.Request, resp: Any) -> dict[str, Any]:
        """Say which node has one of some MAC addresses, or a UUID."""
        if req.minor < versions.RAMDISK:
            raise exceptions.NotFound('The resource could not be found.')
        node = self._find(req)
        if node is None or (node['provision_state']
                            not in states.LOOKUP_ALLOWED):
            # The same for both: a stranger learns nothing.
            raise exceptions.NotFound(
                'No node was found that has these addresses or this UUID '
                'and waits for a ramdisk.')
        config = dict(self._config)
        if req.minor >= versions.AGENT_TOKEN:
            config['agent_token'] = self._token(node)
        base_url = common.link_base(req, self._services)
        shown = {name: masking.masked(node[name]) for name in _SHOWN}
        shown['links'] = [
            {'rel': 'self', 'href': f'{base_url}/v1/nodes/{node["uuid"]}'},
            {'rel': 'bookmark',
             'href': f'{base_url}/nodes/{node["uuid"]}'}]
        LOG.info('A ramdisk looked up node %s', node['uuid'])
        return {'node': shown, 'config': config}

    @base.expose
    def heartbeat(self, req: request.Request, resp: Any,
                  ident: str) -> Any:
        """Take note that an agent runs, and tell who waits for it.

        agent_status and its message are of other work than ours; they are
        taken and left.
        """
        if req.minor < versions.RAMDISK:
            raise exceptions.NotFound('The resource could not be found.')
        said = self._said(req)
        node = node_agents.seen(ident.lower())
        token = self._check(node, said)
        if not node_agents.heard(
                node['uuid'], token, said['callback_url'],
                said.get('agent_version'), said.get('agent_verify_ca')):
            # It changed since it was read; it may say why now.
            self._check(node_agents.seen(node['uuid']), said)
            raise exceptions.Conflict(
                reason=f'node {node["uuid"]} was changed meanwhile; try '
                'again')
        if node['provision_state'] in states.HEARTBEAT_MATTERS:
            self._tell(req, node, token)
        return base.accepted(resp)

    # --- lookup ------------------------------------------------------------

    def _find(self, req: request.Request) -> sa.RowMapping | None:
        addresses = self._addresses(req)
        uuid = req.GET.get('node_uuid')
        if uuid is not None and db.is_uuid(uuid):
            return self._find_by_uuid(uuid, addresses)
        if not addresses:
            raise exceptions.BadRequest(
                'node_uuid has to be a UUID, or addresses to have a MAC '
                'address.')
        return db.get_by_addresses(addresses)

    @staticmethod
    def _addresses(req: request.Request) -> list[str]:
        addresses = []
        for word in req.GET.get('addresses', '').split(',')[
                :_ADDRESSES_MAX]:
            try:
                addresses.append(ports_schema.mac(word.strip()))
            except ValueError:
                # A card of another kind; the others may be known.
                continue
        return addresses

    @staticmethod
    def _find_by_uuid(uuid: str, addresses: list[str]
                      ) -> sa.RowMapping | None:
        """Give a node whose ramdisk was told its UUID.

        A UUID is in links and logs, so it alone gets nobody the token. An
        agent always tells its addresses, too; one of a node's own has to
        be among them, where any are known.
        """
        try:
            node = db.get(uuid)
        except exceptions.NodeNotFound:
            return None
        known = ports.addresses_of(node['uuid'])
        if known and known.isdisjoint(addresses):
            LOG.warning('Somebody who has no port of node %s looked it up '
                        'by its UUID', node['uuid'])
            return None
        return node

    def _token(self, node: sa.RowMapping) -> str:
        """Give the token of a node's agent, to the first that asks."""
        if node['agent_token_hash'] is None:
            if node['reservation'] is not None:
                # The conductor is about to forget the agent that was, and
                # to boot another.
                raise exceptions.NodeLocked(node=node['uuid'],
                                            host=node['reservation'])
            token = node_agents.give_token(node['uuid'])
            if token is not None:
                return token
            if db.get(node['uuid'])['agent_token_hash'] is None:
                raise exceptions.Conflict(
                    reason=f'node {node["uuid"]} was changed meanwhile; try '
                    'again')
        return masking.MASK

    # --- heartbeat ---------------------------------------------------------

    def _said(self, req: request.Request) -> dict[str, Any]:
        """Read a heartbeat."""
        body = bodies.document(req)
        _HEARTBEAT.check(body)
        for name, since in _SINCE.items():
            if body.get(name) is not None and req.minor < since:
                raise exceptions.BadRequest(
                    f'Field "{name}" not recognised: it needs API version '
                    f'1.{since}.')
        if req.minor >= versions.AGENT_VERSION and not body.get(
                'agent_version'):
            raise exceptions.BadRequest(
                'Missing mandatory parameter: agent_version')
        self._check_url(body['callback_url'])
        certificate = body.get('agent_verify_ca')
        if certificate and not certificate.lstrip().startswith(
                _CERTIFICATE):
            raise exceptions.BadRequest(
                'agent_verify_ca is no certificate in PEM.')
        return body

    def _check_url(self, url: str) -> None:
        schemes = ('https',) if self._require_tls else ('https', 'http')
        try:
            parts = urllib.parse.urlsplit(url)
            usable = (parts.scheme in schemes and parts.hostname
                      and parts.port != 0 and parts.username is None)
        except ValueError:
            usable = False
        if not usable or not url.isascii() or not url.isprintable():
            raise exceptions.BadRequest(
                'callback_url has to be the address of the agent, and begin '
                f'with {" or ".join(schemes)}'
                + ('. Plain HTTP is refused while [agent]require_tls is '
                   'set.' if self._require_tls else '.'))
        if not self._callbacks.may_be(parts.hostname or ''):
            raise exceptions.BadRequest(
                'callback_url has an address at which no agent can be: see '
                '[agent]callback_networks.')

    def _check(self, node: sa.RowMapping, said: dict[str, Any]) -> str:
        """Refuse what is not the agent of a node; give its token."""
        token = said.get('agent_token')
        if not token or not node_agents.token_matches(node, token):
            LOG.warning('A heartbeat for node %s had a wrong token',
                        node['uuid'])
            raise exceptions.BadRequest(
                'Invalid or missing agent token received.')
        if node['agent_url'] is None:
            if node['reservation'] is not None:
                # So early that the conductor does not wait for it yet. It
                # would else hear of it only when the next one is due.
                raise exceptions.NodeLocked(node=node['uuid'],
                                            host=node['reservation'])
            return token
        if node['agent_url'] != said['callback_url']:
            raise exceptions.BadRequest(
                'Detected change in ramdisk provided "callback_url": it is '
                'the same as long as a ramdisk runs.')
        if (node['agent_verify_ca'] or '') != (
                said.get('agent_verify_ca') or ''):
            raise exceptions.BadRequest(
                'Detected change in ramdisk provided "agent_verify_ca": it '
                'is the same as long as a ramdisk runs.')
        return token

    def _tell(self, req: request.Request, node: sa.RowMapping,
              token: str) -> None:
        services = self._services
        host = services.ring.conductor_for(node, node)
        ctxt = context.system_context(req.environ[request.REQUEST_ID])
        try:
            services.baremetal.heartbeat(ctxt, host, node['uuid'], token)
        except exceptions.ServiceUnavailable:
            services.ring.refresh()
            raise


