# SPDX-License-Identifier: Apache-2.0
"""Sessions with BMCs that are kept for the next piece of work.

A session is lent to one thread at a time. One that was refused is not used
again. The idle ones have a bound in number and in age; BMCs have few to
give, and forget theirs.
"""

from collections import OrderedDict
from collections.abc import Iterator
import contextlib
from dataclasses import dataclass
import itertools
import threading
import time
from typing import NoReturn

from oslo_config import cfg
from oslo_log import log as logging
import requests
import sushy
from sushy import auth as sushy_auth

from stillframe.drivers.redfish import access as accesses
from stillframe.drivers.redfish.access import Access
from stillframe.drivers.redfish.http import Connector

LOG = logging.getLogger(__name__)

# Seconds for a BMC to take a log-out, and for all of them when we stop. What
# is not logged out by then, the BMCs forget by themselves.
_LOGOUT_TIMEOUT = 5.0
_CLOSING_TIMEOUT = 10.0


class _NoAuth(sushy_auth.AuthBase):
    """For a BMC that lets everybody in."""

    def _do_authenticate(self) -> None:
        """There is nothing to prove."""

    def can_refresh_session(self) -> bool:
        """There is no session."""
        return False


class _SessionAuth(sushy_auth.SessionAuth):
    """Logs in, and leaves no session behind when it logs in again.

    That happens when a BMC refuses a request: either it forgot the session,
    or the user may not do this and the session is still there.
    """

    def refresh_session(self) -> None:
        """Log out and in."""
        _log_out(self._connector, self.get_session_resource_id())
        super().refresh_session()


class _SessionOrBasicAuth(sushy_auth.SessionOrBasicAuth, _SessionAuth):
    """The same where there are sessions."""


_AUTHS = {accesses.AUTO: _SessionOrBasicAuth,
          accesses.BASIC: sushy_auth.BasicAuth,
          accesses.SESSION: _SessionAuth}


class _Internet:
    """Stands where sushy would fetch registries of messages from."""

    @staticmethod
    def get(*_args: object, **_kwargs: object) -> NoReturn:
        """Fetch nothing."""
        raise requests.exceptions.ConnectionError(
            'Nothing is fetched from the Internet.')


def _log_out(connector: Connector, resource: str | None) -> None:
    """Tell a BMC that a session is over.

    :param resource: of the session; None for none.
    """
    if resource is None:
        return
    try:
        connector.delete(resource, timeout=_LOGOUT_TIMEOUT,
                         allow_reauth=False)
    except (sushy.exceptions.SushyError, requests.RequestException) as exc:
        # It forgets the session in time.
        LOG.debug('A BMC did not take a log-out: %s', exc)


@dataclass
class Session:
    """A BMC that we are logged in at."""

    access: Access
    root: sushy.Sushy
    auth: sushy_auth.AuthBase
    connector: Connector
    opened: float

    def forget(self) -> None:
        """Close our side of it; nothing is sent."""
        if isinstance(self.auth, sushy_auth.SessionAuth):
            # Or sushy would log out when it is collected as garbage, in
            # whatever thread that is.
            self.auth.reset_session_attrs()
        self.connector.close()

    def log_out(self) -> None:
        """Tell the BMC that the session is over, and close our side."""
        if isinstance(self.auth, sushy_auth.SessionAuth):
            _log_out(self.connector, self.auth.get_session_resource_id())
        self.forget()


class Sessions:
    """The idle sessions of this process."""

    def __init__(self, conf: cfg.ConfigOpts):
        self._conf = conf
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        # Longest idle first. The number tells several of one BMC apart.
        self._idle: OrderedDict[tuple[Access, int], Session] = OrderedDict()
        self._closed = False

    def __len__(self) -> int:
        return len(self._idle)

    def close(self) -> None:
        """Log out everywhere, as far as that works quickly."""
        with self._lock:
            idle = list(self._idle.values())
            self._idle.clear()
            self._closed = True
        deadline = time.monotonic() + _CLOSING_TIMEOUT
        for session in idle:
            if time.monotonic() < deadline:
                session.log_out()
            else:
                session.forget()

    @contextlib.contextmanager
    def lend(self, access: Access) -> Iterator[sushy.Sushy]:
        """Lend a session with a BMC: an idle one, or a new one.

        :raises SushyError: it could not be opened.
        """
        session = self._take(access) or self._open(access)
        try:
            yield session.root
        except sushy.exceptions.AccessError:
            session.log_out()
            raise
        except BaseException:
            # No connection is kept with it, so it outlives one that broke.
            self._give_back(session)
            raise
        self._give_back(session)

    def _take(self, access: Access) -> Session | None:
        old: list[Session] = []
        found = None
        oldest = time.monotonic() - self._conf.redfish.session_age
        with self._lock:
            for key in [one for one in reversed(self._idle)
                        if one[0] == access]:
                session = self._idle.pop(key)
                if session.opened >= oldest:
                    found = session
                    break
                old.append(session)
        for session in old:
            session.log_out()
        return found

    def _give_back(self, session: Session) -> None:
        too_many: list[Session] = []
        oldest = time.monotonic() - self._conf.redfish.session_age
        with self._lock:
            self._idle[session.access, next(self._numbers)] = session
            for key, one in list(self._idle.items()):
                if (self._closed or one.opened < oldest
                        or len(self._idle) > self._conf.redfish.max_sessions):
                    too_many.append(self._idle.pop(key))
        for one in too_many:
            one.log_out()

    def _open(self, access: Access) -> Session:
        group = self._conf.redfish
        connector = Connector(
            access.address, access.verify, group.connect_timeout,
            group.request_timeout, group.retry_wait)
        auth = (_NoAuth() if access.username is None else
                _AUTHS[access.auth_type](access.username, access.password))
        try:
            root = sushy.Sushy(access.address, auth=auth, connector=connector,
                               public_connector=_Internet)
        except BaseException:
            # Whatever it was, nobody else could close it.
            connector.close()
            raise
        return Session(access, root, auth, connector, time.monotonic())
