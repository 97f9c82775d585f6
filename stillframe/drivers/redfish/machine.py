# SPDX-License-Identifier: Apache-2.0
"""One machine at its BMC: doing something there, and what went wrong."""

from collections.abc import Callable
from collections.abc import Iterator
import contextlib
import ssl
import time
from typing import TypeVar

from oslo_config import cfg
from oslo_log import log as logging
import requests
import sushy
from sushy.resources.system.system import System

from stillframe.drivers import errors
from stillframe.drivers.base import Node
from stillframe.drivers.redfish import access
from stillframe.drivers.redfish.http import TooLong
from stillframe.drivers.redfish.sessions import Sessions
from stillframe.drivers.shared import Shared

LOG = logging.getLogger(__name__)

T = TypeVar('T')


class Machine:
    """The machine that a node is.

    :raises MissingDriverInfo: see there.
    :raises InvalidDriverInfo: see there.
    """

    def __init__(self, conf: cfg.ConfigOpts, shared: Shared, node: Node):
        self._conf = conf
        self._sessions = shared.get(Sessions)
        self._uuid: str = node['uuid']
        self._access, self._system = access.read(node)

    def do(self, what: str, work: Callable[[System], T],
           attempts: int | None = None) -> T:
        """Do something with the machine.

        :param what: for messages: "switch it on".
        :param work: is given the system, freshly read. It is called again
            when the BMC did not answer, so it has to look before it acts.
        :param attempts: how often at most; None for the configured number.
        :raises BMCError: see there.
        :raises InvalidDriverInfo: the BMC has no such system.
        """
        left = attempts or self._conf.redfish.attempts
        while True:
            left -= 1
            try:
                with (self._understood(what),
                      self._sessions.lend(self._access) as root):
                    return work(self._find(root))
            except errors.BMCError as exc:
                if not exc.transient or not left:
                    raise
                LOG.info('Node %s: %s Trying again in %s s.', self._uuid,
                         exc, self._conf.redfish.retry_wait)
            time.sleep(self._conf.redfish.retry_wait)

    def _find(self, root: sushy.Sushy) -> System:
        try:
            return root.get_system(self._system)
        except sushy.exceptions.ResourceNotFoundError as exc:
            raise errors.InvalidDriverInfo(
                node=self._uuid, key='redfish_system_id',
                reason='the BMC has no such system.') from exc
        except sushy.exceptions.UnknownDefaultError as exc:
            raise errors.InvalidDriverInfo(
                node=self._uuid, key='redfish_system_id',
                reason='the BMC does not manage exactly one system, so it '
                'has to name one.') from exc

    @contextlib.contextmanager
    def _understood(self, what: str) -> Iterator[None]:
        """Turn sushy's errors into ours.

        What the BMC said goes to the log: it may repeat what it was told.
        """
        try:
            yield
        except (sushy.exceptions.ConnectionError,
                requests.RequestException) as exc:
            raise self._unreachable(exc) from exc
        except sushy.exceptions.AccessError as exc:
            raise errors.BMCDenied(node=self._uuid) from exc
        except sushy.exceptions.HTTPError as exc:
            self._log(what, exc)
            kind = (errors.BMCFault if (exc.status_code or 0) >= 500
                    else errors.BMCRefused)
            raise kind(node=self._uuid, what=what,
                       status=exc.status_code) from exc
        except (sushy.exceptions.MissingActionError,
                sushy.exceptions.InvalidParameterValueError) as exc:
            self._log(what, exc)
            raise errors.UnsupportedRequest(
                node=self._uuid, what=what,
                reason='its BMC does not offer that.') from exc
        except sushy.exceptions.SushyError as exc:
            self._log(what, exc)
            raise errors.BMCUnintelligible(
                node=self._uuid, reason='something is missing or malformed '
                'in what it says') from exc
        except (ValueError, TypeError, LookupError, AttributeError,
                RecursionError) as exc:
            # sushy trusts the types of what it is sent.
            self._log(what, exc)
            raise errors.BMCUnintelligible(
                node=self._uuid, reason='its answer is not what Redfish '
                'says') from exc

    def _unreachable(self, exc: Exception) -> errors.BMCError:
        for cause in _causes(exc):
            if isinstance(cause, TooLong):
                return errors.BMCUnintelligible(
                    node=self._uuid, reason='its answer has no end')
            if isinstance(cause, ssl.SSLCertVerificationError):
                return errors.BMCNotTrusted(node=self._uuid,
                                            reason=cause.verify_message)
        return errors.BMCUnreachable(node=self._uuid, reason=_reason(exc))

    def _log(self, what: str, exc: Exception) -> None:
        text = f'{type(exc).__name__}: {exc}'
        if self._access.password:
            text = text.replace(self._access.password, '***')
        LOG.warning('Node %s: its BMC could not %s: %s', self._uuid, what,
                    text)


def _causes(exc: BaseException) -> Iterator[BaseException]:
    """Give the exceptions that an exception was made from, outermost first.

    The libraries link them in several ways, perhaps in a circle.
    """
    seen: set[int] = set()
    found: BaseException | None = exc
    while found is not None and id(found) not in seen:
        seen.add(id(found))
        yield found
        links = (found.__cause__, found.__context__,
                 getattr(found, 'reason', None), *found.args)
        found = next((one for one in links
                      if isinstance(one, BaseException)), None)


def _reason(exc: BaseException) -> str:
    """Say in a few words why there was no answer; no address in them."""
    for cause in _causes(exc):
        if isinstance(cause, (requests.exceptions.Timeout, TimeoutError)):
            return 'not in time'
        if isinstance(cause, ssl.SSLError):
            return 'TLS failed'
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror.lower()
    return 'the connection broke'
