# SPDX-License-Identifier: Apache-2.0
"""The connection to this host's libvirt: kept up, listened to, asked."""

from collections.abc import Callable
import dataclasses
import threading
from typing import Any

import libvirt
from oslo_log import log

from stillframe.compute.libvirt import complaints
from stillframe.compute.libvirt import domain_xml
from stillframe.compute.libvirt import errors
from stillframe.compute.libvirt import events
from stillframe.compute.libvirt import guest
from stillframe.compute.libvirt.troubles import AgentTrouble
from stillframe.compute.libvirt.troubles import Trouble

LOG = log.getLogger(__name__)

# virDomainAgentSetResponseTimeout came with it; without that call an agent
# that does not answer would hold a thread for ever.
_LEAST_VERSION = 5_010_000
_KEEPALIVE_COUNT = 3
_FIRST_BACKOFF = 0.25
_MOST_BACKOFF = 10.0


@dataclasses.dataclass(frozen=True)
class Event:
    """Something happened to a domain.

    :ivar kind: ``lifecycle``, ``reboot``, ``agent``, ``device`` or
        ``block_job``.
    :ivar event, detail: libvirt's numbers: for ``lifecycle``, and for
        ``block_job`` its status and type.
    :ivar device: for ``block_job``: the disk's target.
    """

    server_id: str
    kind: str
    event: int | None = None
    detail: int | None = None
    device: str | None = None

    @property
    def starved(self) -> bool:
        """Whether a write to a disk failed, which pauses the domain."""
        return (self.kind == 'lifecycle'
                and self.event == libvirt.VIR_DOMAIN_EVENT_SUSPENDED
                and self.detail == libvirt.VIR_DOMAIN_EVENT_SUSPENDED_IOERROR)

    @property
    def migrated_away(self) -> bool:
        """Whether the domain left for another host."""
        return (self.kind == 'lifecycle'
                and self.event == libvirt.VIR_DOMAIN_EVENT_STOPPED
                and self.detail == libvirt.VIR_DOMAIN_EVENT_STOPPED_MIGRATED)


class Host:
    """libvirt on this host.

    Callbacks are called on the threads of libvirt's events or of the
    connection: they must return at once and must not call libvirt.
    """

    def __init__(self, uri: str, keepalive_interval: int,
                 query_timeout: float, connected: Callable[[], None],
                 happened: Callable[[Event], None]):
        """Take what is needed to connect; :meth:`start` connects.

        :param connected: called after each (re)connection.
        :param happened: called with each event.
        """
        self.uri = uri
        self._keepalive_interval = keepalive_interval
        self._query_timeout = query_timeout
        self._connected = connected
        self._happened = happened
        self._connection: libvirt.virConnect | None = None
        self._complaints = complaints.Complaints()
        self._missing: list[str] = []
        self._versions: dict[str, str] = {}
        self._wake = threading.Event()
        self._tried = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(
            target=self._keep_connected, name='libvirt-connection',
            daemon=True)

    def start(self, wait: float) -> None:
        """Begin to connect, and to reconnect whenever it breaks.

        :param wait: seconds to wait for the first connection; when there
            is none by then, it goes on behind.
        """
        libvirt.registerErrorHandler(_no_stderr, None)
        events.start()
        self._thread.start()
        self._tried.wait(wait)

    def stop(self) -> None:
        """Disconnect."""
        self._stopping = True
        self._wake.set()
        self._thread.join(10)
        connection, self._connection = self._connection, None
        if connection is not None:
            _close(connection)
        events.stop()

    # --- connection ---------------------------------------------------------

    def _keep_connected(self) -> None:
        backoff = _FIRST_BACKOFF
        while not self._stopping:
            if self._connection is None:
                try:
                    self._connect()
                    self._tried.set()
                    backoff = _FIRST_BACKOFF
                except libvirt.libvirtError as exc:
                    LOG.log(self._complaints.level(str(exc)),
                            'No connection to libvirt at %s: %s. It is '
                            'tried until there is one.', self.uri, exc)
                    self._tried.set()
                    self._wake.wait(backoff)
                    backoff = min(backoff * 2, _MOST_BACKOFF)
                    continue
            self._wake.wait()
            self._wake.clear()

    def _connect(self) -> None:
        connection = libvirt.open(self.uri)
        try:
            try:
                connection.setKeepAlive(self._keepalive_interval,
                                        _KEEPALIVE_COUNT)
            except libvirt.libvirtError as exc:
                # Drivers inside this process have no use for it.
                LOG.debug('No keep-alive: %s', exc)
            connection.registerCloseCallback(self._closed, None)
            self._missing = _missing(connection)
            self._versions = _versions(connection)
            self._listen(connection)
        except libvirt.libvirtError:
            _close(connection)
            raise
        self._connection = connection
        without = self._complaints.over()
        LOG.info('Connected to libvirt at %s%s: %s', self.uri,
                 '' if without is None else f' after {without:.0f} s',
                 self._versions)
        for lack in self._missing:
            LOG.error('No server on this host can be quiesced: %s', lack)
        self._connected()

    def _closed(self, connection: libvirt.virConnect, reason: int,
                _opaque: Any) -> None:
        LOG.error('The connection to libvirt broke (reason %s); connecting '
                  'again', reason)
        if self._connection is not None:
            self._connection = None
        self._wake.set()

    def _listen(self, connection: libvirt.virConnect) -> None:
        for number, callback in (
                (libvirt.VIR_DOMAIN_EVENT_ID_LIFECYCLE, self._on_lifecycle),
                (libvirt.VIR_DOMAIN_EVENT_ID_REBOOT, self._on_reboot),
                (libvirt.VIR_DOMAIN_EVENT_ID_AGENT_LIFECYCLE,
                 self._on_agent),
                (libvirt.VIR_DOMAIN_EVENT_ID_DEVICE_ADDED, self._on_device),
                (libvirt.VIR_DOMAIN_EVENT_ID_DEVICE_REMOVED,
                 self._on_device),
                (libvirt.VIR_DOMAIN_EVENT_ID_BLOCK_JOB_2,
                 self._on_block_job)):
            try:
                connection.domainEventRegisterAny(
                    None, number, callback, None)
            except libvirt.libvirtError as exc:
                LOG.warning('No events of kind %s; the full pass makes up '
                            'for it: %s', number, exc)

    def _on_lifecycle(self, _connection: Any, domain: libvirt.virDomain,
                      event: int, detail: int, _opaque: Any) -> None:
        self._happened(Event(domain.UUIDString(), 'lifecycle', event,
                             detail))

    def _on_reboot(self, _connection: Any, domain: libvirt.virDomain,
                   _opaque: Any) -> None:
        self._happened(Event(domain.UUIDString(), 'reboot'))

    def _on_agent(self, _connection: Any, domain: libvirt.virDomain,
                  _state: int, _reason: int, _opaque: Any) -> None:
        self._happened(Event(domain.UUIDString(), 'agent'))

    def _on_device(self, _connection: Any, domain: libvirt.virDomain,
                   _alias: str, _opaque: Any) -> None:
        self._happened(Event(domain.UUIDString(), 'device'))

    def _on_block_job(self, _connection: Any, domain: libvirt.virDomain,
                      target: str, kind: int, status: int,
                      _opaque: Any) -> None:
        self._happened(Event(domain.UUIDString(), 'block_job', status, kind,
                             target))

    # --- questions ----------------------------------------------------------

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection."""
        return self._connection is not None

    @property
    def missing(self) -> list[str]:
        """What this hypervisor lacks for a freeze; empty: nothing."""
        return list(self._missing)

    def capabilities(self) -> dict[str, Any]:
        """Describe the hypervisor, for reports."""
        return {**self._versions, 'connected': self.is_connected,
                'missing': self.missing}

    def _asked(self) -> libvirt.virConnect:
        connection = self._connection
        if connection is None:
            raise AgentTrouble(Trouble.CONNECTION,
                               f'no connection to libvirt at {self.uri}')
        return connection

    def guest(self, server_id: str) -> guest.Guest:
        """Give a guest of this host.

        :raises AgentTrouble: ``gone`` or ``hypervisor_lost``.
        """
        try:
            domain = self._asked().lookupByUUIDString(server_id)
        except libvirt.libvirtError as exc:
            raise errors.trouble(exc) from exc
        return guest.Guest(domain, self._query_timeout)

    def domain(self, server_id: str) -> libvirt.virDomain:
        """Give a domain of this host, for work on its disks.

        :raises AgentTrouble: ``gone`` or ``hypervisor_lost``.
        """
        try:
            return self._asked().lookupByUUIDString(server_id)
        except libvirt.libvirtError as exc:
            raise errors.trouble(exc) from exc

    def servers(self) -> list[tuple[domain_xml.Facts, int]]:
        """Give the facts and the power state of every domain.

        :raises AgentTrouble: ``hypervisor_lost``.
        """
        try:
            domains = self._asked().listAllDomains(0)
        except libvirt.libvirtError as exc:
            raise errors.trouble(exc) from exc
        found = (_describe(domain) for domain in domains)
        return [one for one in found if one is not None]

    def server(self, server_id: str) -> tuple[domain_xml.Facts, int] | None:
        """Give those of one domain, or None when there is no such one.

        :raises AgentTrouble: ``hypervisor_lost``.
        """
        try:
            domain = self._asked().lookupByUUIDString(server_id)
        except libvirt.libvirtError as exc:
            trouble = errors.trouble(exc)
            if trouble.kind is Trouble.GONE:
                return None
            raise trouble from exc
        return _describe(domain)


def _describe(domain: libvirt.virDomain
              ) -> tuple[domain_xml.Facts, int] | None:
    """Describe a domain; None when it vanished or makes no sense."""
    try:
        power = guest.power_state(domain.state()[0])
        return domain_xml.parse(domain.XMLDesc(0)), power
    except libvirt.libvirtError as exc:
        trouble = errors.trouble(exc)
        if trouble.kind is Trouble.CONNECTION:
            raise trouble from exc
        return None
    except domain_xml.BadXML as exc:
        LOG.error('Leaving out domain %s: %s', domain.UUIDString(), exc)
        return None


def _missing(connection: libvirt.virConnect) -> list[str]:
    """Say what the hypervisor lacks for a freeze."""
    missing = []
    driver = connection.getType()
    if driver != 'QEMU':
        missing.append(f'the hypervisor driver is {driver}, and only QEMU '
                       'can talk to a guest agent')
    version = connection.getLibVersion()
    if version < _LEAST_VERSION:
        missing.append(f'libvirt {_dotted(version)} cannot bound agent '
                       'calls; 5.10.0 or later is needed')
    return missing


def _versions(connection: libvirt.virConnect) -> dict[str, str]:
    return {'driver': connection.getType(),
            'libvirt': _dotted(connection.getLibVersion()),
            'hypervisor': _dotted(connection.getVersion())}


def _dotted(version: int) -> str:
    return (f'{version // 1_000_000}.{version // 1000 % 1000}.'
            f'{version % 1000}')


def _close(connection: libvirt.virConnect) -> None:
    try:
        connection.unregisterCloseCallback()
    except libvirt.libvirtError as exc:
        LOG.debug('Closing: %s', exc)
    try:
        connection.close()
    except libvirt.libvirtError as exc:
        LOG.debug('Closing: %s', exc)


def _no_stderr(_opaque: Any, _error: Any) -> None:
    """Keep libvirt from printing errors that we raise and log anyway."""
