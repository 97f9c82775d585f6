# SPDX-License-Identifier: Apache-2.0
"""The agent that stands alone: looks up, serves, heartbeats, ends."""

import logging
import os
import tempfile
import time

from stillframe.agent import addresses
from stillframe.agent import api as bare_metal
from stillframe.agent import commands
from stillframe.agent import extensions
from stillframe.agent import heartbeat
from stillframe.agent import keepsake
from stillframe.agent import lookup
from stillframe.agent import routes
from stillframe.agent import server
from stillframe.agent import settings
from stillframe.agent import waking

LOG = logging.getLogger(__name__)

# Seconds that a command gets to end when the agent is told to.
_LAST_COMMAND = 20.0


class TokenTaken(Exception):
    """The API gave this node's token to somebody before."""


class CannotServe(Exception):
    """The command API cannot be offered; the text says why."""


class Agent:
    """One run of the agent."""

    def __init__(self, told: settings.Settings):
        """Prepare.

        :raises CannotServe: of what it was told, something cannot be used.
        """
        self._told = told
        try:
            self._keepsake = keepsake.Keepsake(told.state_path)
            self._api = bare_metal.Api(
                told.api_urls, told.http_timeout,
                str(told.ca_file) if told.ca_file else None)
        except (keepsake.Unsafe, OSError) as exc:
            raise CannotServe(f'{exc}') from exc

    def run(self) -> None:
        """Serve until a signal says to end.

        :raises CannotServe: the port is taken, or no address is known.
        :raises TokenTaken: the node's token is not for this agent.
        :raises lookup.NotFound: no node is this machine.
        :raises heartbeat.Unheard: the API takes no heartbeat any more.
        """
        with waking.Waker() as waker:
            told = self._told
            try:
                found = lookup.Lookup(
                    self._api, waker.wait, told.lookup_timeout,
                    told.lookup_interval).run()
            except lookup.Ended:
                LOG.info('told to end before the lookup was answered')
                return
            LOG.info('this machine is node %s', found.uuid)
            self._serve(found, self._token(found), waker)

    def _token(self, found: lookup.Identity) -> str | None:
        """Choose the token: a fresh one, else the one that is known."""
        if found.token:
            self._keepsake.keep_token(found.uuid, found.token)
            return found.token
        token = (self._told.agent_token
                 or self._keepsake.token(found.uuid))
        if token is None and found.token_taken:
            raise TokenTaken(
                f'The token of node {found.uuid} was given out before, and '
                'not to this boot of this machine. Nothing can be done '
                'here: the conductor has to begin again, which boots this '
                'machine anew.')
        return token

    def _serve(self, found: lookup.Identity, token: str | None,
               waker: waking.Waker) -> None:
        told = self._told
        host = told.advertise_host or self._api.local_address or ''
        if not addresses.is_usable(host):
            raise CannotServe(
                f'{host or "No address"} is no address to be called at; '
                'name one by agent-ip or ipa-advertise-host.')
        # No command is taken before there are heartbeats to force.
        orders = commands.Commands(
            extensions.build(told.booted_for_agent),
            ended=lambda: beats.force())
        app = routes.App(orders, time.time())
        app.token = token
        try:
            listening = server.Server(app, told.listen_host,
                                      told.listen_port)
        except OSError as exc:
            raise CannotServe(
                f'Port {told.listen_port} cannot be listened on: '
                f'{exc}.') from exc
        pem = self._secure(listening, found, host)
        port = told.advertise_port or listening.port
        url = f'{listening.scheme}://{addresses.in_url(host)}:{port}'
        beats = heartbeat.Heartbeat(
            lambda: self._api.heartbeat(found.version, found.uuid, url,
                                        token, pem),
            found.heartbeat_timeout, waker, lambda: orders.busy)
        listening.start()
        LOG.info('taking commands at %s', url)
        try:
            beats.run()
            LOG.info('told to end')
        finally:
            if not orders.stop(_LAST_COMMAND):
                LOG.error('a command does not end; leaving it behind')
            listening.stop()

    def _secure(self, listening: server.Server, found: lookup.Identity,
                host: str) -> str | None:
        """Speak TLS where the API takes our certificate.

        :return: the certificate, PEM text.
        """
        if not self._told.auto_tls:
            LOG.warning('commands will be taken over plain HTTP: TLS is '
                        'switched off')
            return None
        if not bare_metal.takes_certificates(found.version):
            LOG.warning('commands will be taken over plain HTTP: the API '
                        'is too old to take a certificate')
            return None
        made = self._keepsake.certificate(found.uuid, host, self._api.now())
        # OpenSSL reads certificates from files only.
        handle, path = tempfile.mkstemp(dir=self._keepsake.folder)
        try:
            with os.fdopen(handle, 'w') as file:
                file.write(made.pem + made.key_pem)
            listening.use_tls(path)
        finally:
            os.unlink(path)
        return made.pem
