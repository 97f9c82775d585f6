# SPDX-License-Identifier: Apache-2.0
"""HTTP with a BMC: an answer has to be whole in time, and of sane size.

requests' time-out is that of each read from the socket. A BMC that sends a
byte now and then would hold a worker for ever; so answers are read here,
against one clock.
"""

import time
from typing import Any

import requests
from requests import adapters
from sushy import connector
import urllib3.exceptions

#: Longest answer in bytes. A system with all its parts has some 100 KiB;
#: sushy logs the whole of what it cannot read.
LIMIT = 4 << 20
# Some add the slash that ends a path.
_REDIRECTS = 5


class TooLong(requests.exceptions.RequestException):
    """An answer is longer than any that makes sense."""


class _BoundedAdapter(adapters.HTTPAdapter):
    """Reads each answer to its end before it gives it away.

    Also that of a redirection, which requests would read by itself.
    """

    def __init__(self, patience: float):
        super().__init__()
        self.patience = patience

    def send(self, *args: Any, **kwargs: Any) -> requests.Response:
        """Send a request, and read the answer.

        :raises requests.exceptions.ReadTimeout: it did not come in time.
        :raises TooLong: see there.
        """
        deadline = time.monotonic() + self.patience
        response = super().send(*args, **{**kwargs, 'stream': True})
        try:
            content = _read(response, deadline)
        finally:
            response.close()
        # As Response.content does when it reads by itself.
        response._content = content
        response._content_consumed = True  # type: ignore[attr-defined]
        return response


class BoundedSession(requests.Session):
    """A session whose answers have an end.

    :param patience: seconds for a whole answer.
    """

    def __init__(self, patience: float):
        super().__init__()
        self.max_redirects = _REDIRECTS
        for scheme in ('http://', 'https://'):
            self.mount(scheme, _BoundedAdapter(patience))

    def rebuild_auth(self, prepared_request: requests.PreparedRequest,
                     response: requests.Response) -> None:
        """Leave the session's key behind when another host is named."""
        old, new = response.request.url, prepared_request.url
        if self.should_strip_auth(str(old), str(new)):
            prepared_request.headers.pop('X-Auth-Token', None)
        super().rebuild_auth(prepared_request, response)


def _read(response: requests.Response, deadline: float) -> bytes:
    pieces, total = [], 0
    try:
        # read1() waits for one piece, read() for all.
        while piece := response.raw.read1(65536, decode_content=True):
            pieces.append(piece)
            total += len(piece)
            if total > LIMIT:
                raise TooLong(f'The answer is longer than {LIMIT} bytes.')
            if time.monotonic() > deadline:
                raise requests.exceptions.ReadTimeout(
                    'The answer did not end in time.')
    except urllib3.exceptions.ReadTimeoutError as exc:
        raise requests.exceptions.ReadTimeout(exc) from exc
    except (urllib3.exceptions.HTTPError, OSError) as exc:
        raise requests.exceptions.ConnectionError(exc) from exc
    return b''.join(pieces)


class Connector(connector.Connector):
    """sushy's connector on such a session.

    It sends a request once; who repeats is who knows what it means. (One
    that a BMC answers with 5xx, it asks for once more if it is a GET.)
    """

    _session: requests.Session

    def __init__(self, url: str, verify: bool | str, connect_timeout: float,
                 patience: float, retry_wait: float):
        super().__init__(
            url, verify=verify, connect_timeout=connect_timeout,
            default_request_timeout=patience, server_side_retries=1,
            server_side_retries_delay=retry_wait)
        headers = self._session.headers
        self._session.close()
        self._session = BoundedSession(patience)
        self._session.headers = headers
