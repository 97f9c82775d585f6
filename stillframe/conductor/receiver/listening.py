# SPDX-License-Identifier: Apache-2.0
"""Where the receiver listens, and what agents are told of that."""

from collections.abc import Callable
import dataclasses
import pathlib
import urllib.parse

from oslo_config import cfg
from oslo_log import log

from stillframe.conductor.receiver import app
from stillframe.conductor.receiver import certificates
from stillframe.conductor.receiver import errors
from stillframe.conductor.receiver import server

LOG = log.getLogger(__name__)

# Below those that the kernel gives to connections that go out.
_PORTS = range(6390, 6490)
_ANYWHERE = frozenset(('0.0.0.0', '::'))  # noqa: S104


@dataclasses.dataclass(frozen=True)
class Listening:
    """A server that listens.

    :ivar url: that agents are told, without a path.
    :ivar ca: that agents trust, PEM; None: what they trust anyway.
    """

    server: server.Server
    url: str
    ca: str | None


def listen(conf: cfg.ConfigOpts, path: pathlib.Path,
           application: app.Application) -> Listening:
    """Begin to listen.

    :param path: folder in which the port and a certificate are kept.
    :raises CannotReceive: that cannot be had.
    """
    group = conf.receiver
    host = urllib.parse.urlsplit(group.public_url or '').hostname
    if not host and group.host in _ANYWHERE:
        raise errors.CannotReceive(
            reason=f'host is {group.host}, and agents have to be told an '
            'address: set public_url or host')
    context = None
    if group.tls:
        context, ca = certificates.context(conf, path, host or group.host)
    else:
        ca = certificates.ca_text(group.ca)

    def make(port: int) -> server.Server:
        made = server.Server(
            (group.host, port), application, context, group.connections,
            group.request_timeout, group.silence_timeout)
        made.start_serving()
        return made

    made = _make(conf, path / '.port', make)
    bound, port = made.bind_addr[:2]
    shown = f'[{bound}]' if ':' in bound else bound
    scheme = 'https' if group.tls else 'http'
    url = group.public_url or f'{scheme}://{shown}:{port}'
    return Listening(made, url.rstrip('/'), ca)


def _make(conf: cfg.ConfigOpts, note: pathlib.Path,
          make: Callable[[int], server.Server]) -> server.Server:
    """Listen on the port that is configured, or on one that is free.

    That of before first, so that orders which were given hold.
    """
    group = conf.receiver
    ports = [group.port] if group.port else [*_before(note), *_PORTS]
    failed: OSError | None = None
    for port in ports:
        try:
            made = make(port)
        except OSError as exc:
            failed = exc
        else:
            _keep(note, port)
            return made
    raise errors.CannotReceive(
        reason=f'it cannot listen on {group.host} port {ports[-1]}: '
        f'{failed}') from failed


def _keep(note: pathlib.Path, port: int) -> None:
    try:
        note.write_text(str(port))
    except OSError as exc:
        LOG.warning('The port of the receiver, %s, cannot be kept: %s. '
                    'Images under way when this conductor starts again may '
                    'have to be sent anew.', port, exc.strerror)


def _before(note: pathlib.Path) -> list[int]:
    try:
        return [int(note.read_text())]
    except (OSError, ValueError):
        return []
