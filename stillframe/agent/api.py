# SPDX-License-Identifier: Apache-2.0
"""The bare-metal API, as an agent calls it: discovery, lookup, heartbeat.

Plain HTTP of the standard library. The microversions are those that
ironic-python-agent uses: the lookup gives a token from 1.62 on, the
heartbeat takes a certificate from 1.68 on.
"""

import calendar
from email import utils
import http.client
import json
import ssl
import time
from typing import Any
from urllib import parse

from stillframe.agent import version as own

LOOKUP_VERSION = (1, 62)
HEARTBEAT_VERSION = (1, 68)

_TOKEN_SINCE = (1, 62)
_AGENT_VERSION_SINCE = (1, 36)
_CERTIFICATE_SINCE = (1, 68)
_LONGEST_ANSWER = 4 << 20
# Of an error's text, so that a page of HTML does not fill the console.
_LONGEST_REASON = 500


class Unreachable(Exception):
    """The API gave no answer, or none that could be understood."""


class Refused(Exception):
    """The API answered with an error.

    :ivar status: of HTTP.
    """

    def __init__(self, status: int, reason: str):
        super().__init__(f'HTTP {status}: {reason}')
        self.status = status


def _reason(body: bytes) -> str:
    """Find the sentence in an error, which has had several shapes."""
    text = body.decode(errors='replace')
    try:
        found = json.loads(text)
        if isinstance(found, dict):
            found = found.get('error_message', found)
        if isinstance(found, str):
            found = json.loads(found)
    except ValueError:
        found = None
    if isinstance(found, dict):
        text = str(found.get('faultstring') or found.get('title')
                   or found.get('description') or text)
    return ' '.join(text.split())[:_LONGEST_REASON]


class Api:
    """The API behind one of several URLs.

    :ivar local_address: this machine's address towards the API; None until
        a connection was made.
    """

    def __init__(self, urls: tuple[str, ...], timeout: float,
                 ca_file: str | None = None):
        """Make a client; nothing is sent yet.

        :param timeout: seconds of silence.
        :param ca_file: whom to trust; None for the system's list.
        :raises OSError: the file cannot be read or holds no certificate.
        """
        self.local_address: str | None = None
        self._ahead = 0.0
        self._urls = list(urls)
        self._timeout = timeout
        self._context = None
        if any(url.startswith('https:') for url in urls):
            self._context = ssl.create_default_context(cafile=ca_file)

    def _send(self, url: str, method: str, path: str,
              headers: dict[str, str],
              body: bytes | None) -> tuple[int, bytes]:
        parts = parse.urlsplit(url)
        connection: http.client.HTTPConnection
        if parts.scheme == 'https':
            connection = http.client.HTTPSConnection(
                str(parts.hostname), parts.port, timeout=self._timeout,
                context=self._context)
        else:
            connection = http.client.HTTPConnection(
                str(parts.hostname), parts.port, timeout=self._timeout)
        try:
            connection.connect()
            self.local_address = connection.sock.getsockname()[0]
            connection.request(method, parts.path + path, body, headers)
            answer = connection.getresponse()
            self._compare_clocks(answer.getheader('Date'))
            return answer.status, answer.read(_LONGEST_ANSWER)
        finally:
            connection.close()

    def _compare_clocks(self, date: str | None) -> None:
        parsed = utils.parsedate(date) if date else None
        if parsed:
            self._ahead = calendar.timegm(parsed) - time.time()

    def now(self) -> float:
        """Tell the time by the API's clock, in seconds since 1970.

        A machine without a battery begins in another century. That of this
        machine where no answer had a date.
        """
        return time.time() + self._ahead

    def _call(self, method: str, path: str,
              version: tuple[int, int] | None = None,
              content: dict[str, Any] | None = None) -> bytes:
        headers = {'Accept': 'application/json', 'Connection': 'close'}
        body = None
        if version:
            headers['X-OpenStack-Ironic-API-Version'] = (
                f'{version[0]}.{version[1]}')
        if content is not None:
            headers['Content-Type'] = 'application/json'
            body = json.dumps(content).encode()
        failures = []
        for url in list(self._urls):
            try:
                status, answer = self._send(url, method, path, headers, body)
            except (OSError, http.client.HTTPException) as exc:
                failures.append(f'{url}: {exc or type(exc).__name__}')
                continue
            # Begin with the one that answers, the next time.
            self._urls.remove(url)
            self._urls.insert(0, url)
            if status >= 300:
                raise Refused(status, _reason(answer))
            return answer
        raise Unreachable('; '.join(failures))

    def version(self) -> tuple[int, int]:
        """Ask for the newest microversion of the API.

        :raises Unreachable: there was no such answer.
        """
        try:
            text = json.loads(self._call('GET', '/'))[
                'default_version']['version']
            major, minor = str(text).split('.')
            return int(major), int(minor)
        except Refused as exc:
            raise Unreachable(f'discovery: {exc}') from exc
        except (ValueError, KeyError, TypeError) as exc:
            raise Unreachable('discovery: that is no bare-metal API') from exc

    def lookup(self, version: tuple[int, int], macs: list[str]
               ) -> dict[str, Any]:
        """Ask which node this machine is.

        :param version: newest microversion of the API.
        :param macs: the addresses of this machine's cards.
        :return: ``node`` and ``config``.
        :raises Unreachable: no answer, or none that makes sense.
        :raises Refused: no such node, or it is not waiting for an agent.
        """
        asked = {'addresses': ','.join(macs)}
        answer = self._call(
            'GET', '/v1/lookup?' + parse.urlencode(asked, safe=',:'),
            min(version, LOOKUP_VERSION))
        try:
            found = json.loads(answer)
            if (isinstance(found['node']['uuid'], str)
                    and float(found['config']['heartbeat_timeout']) > 0):
                return found
        except (ValueError, KeyError, TypeError):
            found = None
        raise Unreachable('lookup: the answer names no node')

    def heartbeat(self, version: tuple[int, int], node: str,
                  callback_url: str, token: str | None,
                  certificate: str | None) -> None:
        """Tell the API that this agent is there.

        :param version: newest microversion of the API.
        :param node: UUID.
        :param callback_url: where commands are taken.
        :param certificate: PEM text that the callback is to be trusted by.
        :raises Unreachable: no answer.
        :raises Refused: the API does not accept it.
        """
        content: dict[str, Any] = {'callback_url': callback_url}
        if version >= _TOKEN_SINCE:
            content['agent_token'] = token
        if version >= _AGENT_VERSION_SINCE:
            content['agent_version'] = own.VERSION
        if version >= _CERTIFICATE_SINCE and certificate:
            content['agent_verify_ca'] = certificate
        self._call('POST', f'/v1/heartbeat/{parse.quote(node, safe="")}',
                   min(version, HEARTBEAT_VERSION), content)


def takes_certificates(version: tuple[int, int]) -> bool:
    """Say whether an API takes an agent's own certificate."""
    return version >= _CERTIFICATE_SINCE
