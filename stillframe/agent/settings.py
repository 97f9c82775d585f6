# SPDX-License-Identifier: Apache-2.0
"""What the agent is told: the kernel's command line, then arguments.

The names of the kernel's parameters are those of ironic-python-agent, so
that a boot configuration written for it works. What is there for features
that this agent has not is left alone.
"""

import argparse
import dataclasses
import pathlib
import re
from urllib import parse

CMDLINE = pathlib.Path('/proc/cmdline')
#: Certificates that a ramdisk is built with; used when the file is there.
CA_FILE = pathlib.Path('/etc/stillframe-agent/ca.pem')
#: On a tmpfs in every ramdisk: what is in it ends with the boot.
STATE_PATH = pathlib.Path('/run/stillframe-agent')

_SHORTEST_TOKEN = 32
_WORD = re.compile(r'(?:[^\s"]|"[^"]*"?)+')


class BadSettings(Exception):
    """The agent cannot work with what it was told; the text says why."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """What the agent was told.

    :ivar api_urls: of the bare-metal API, the first that answers is used.
    :ivar agent_token: known beforehand; None to get it by the lookup.
    :ivar advertise_host: address to be called at; None for the one that
        the API is reached from.
    :ivar advertise_port: where it differs from the port listened on.
    :ivar listen_host: None for all addresses.
    :ivar lookup_timeout: seconds until an agent that no node belongs to
        gives up.
    :ivar lookup_interval: seconds of the shortest wait between lookups.
    :ivar http_timeout: seconds of silence that a request may meet.
    :ivar auto_tls: serve over TLS with a certificate of our own making.
    :ivar ca_file: whom to trust as the API; None for the system's list.
    :ivar state_path: folder for token and certificate, for an agent that
        is started again in the same boot.
    :ivar booted_for_agent: the kernel's command line names the API, so this
        machine was booted to run the agent and may be powered off by it.
    """

    api_urls: tuple[str, ...]
    agent_token: str | None = dataclasses.field(default=None, repr=False)
    advertise_host: str | None = None
    advertise_port: int | None = None
    listen_host: str | None = None
    listen_port: int = 9999
    lookup_timeout: float = 600.0
    lookup_interval: float = 1.0
    http_timeout: float = 30.0
    auto_tls: bool = True
    ca_file: pathlib.Path | None = None
    state_path: pathlib.Path = STATE_PATH
    booted_for_agent: bool = False
    debug: bool = False


def kernel_parameters(line: str) -> dict[str, str]:
    """Take a kernel command line apart.

    :return: what has a value; of two with one name the later. Double quotes
        keep a value with spaces together, as in the kernel.
    """
    found = {}
    for word in _WORD.findall(line):
        name, equals, value = word.replace('"', '').partition('=')
        if equals:
            found[name] = value
    return found


def _truth(name: str, value: str) -> bool:
    if value.lower() in ('1', 'true', 'yes', 'on'):
        return True
    if value.lower() in ('0', 'false', 'no', 'off'):
        return False
    raise BadSettings(f'{name} is {value!r}; say true or false.')


def _number(name: str, value: str, least: float, most: float) -> float:
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not least <= number <= most:
        raise BadSettings(
            f'{name} is {value!r}; it must be a number from {least:g} to '
            f'{most:g}.')
    return number


def _urls(value: str) -> tuple[str, ...]:
    urls = tuple(url.strip().rstrip('/') for url in value.split(',')
                 if url.strip())
    for url in urls:
        try:
            parts = parse.urlsplit(url)
            good = parts.scheme in ('http', 'https') and parts.hostname
            parts.port   # noqa: B018  # raises for one that is none
        except ValueError:
            good = False
        if not good:
            raise BadSettings(
                f'{url!r} is no URL of an API; it must begin with http:// '
                'or https:// and name a host.')
    if not urls:
        raise BadSettings(
            'No URL of the bare-metal API: boot with ipa-api-url=URL or '
            'give --api-url.')
    return urls


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog='stillframe-agent', description='Runs in the ramdisk of a '
        'bare-metal node: looks the node up, heartbeats, streams its disk '
        'when ordered to. Each argument outdoes the kernel parameter.')
    parser.add_argument('--api-url', metavar='URL[,URL]',
                        help='the bare-metal API (ipa-api-url)')
    parser.add_argument('--agent-token-file', type=pathlib.Path,
                        help='holds the token, where it is known beforehand '
                        '(ipa-agent-token)')
    parser.add_argument('--advertise-host', help='address to be called at '
                        '(agent-ip, ipa-advertise-host)')
    parser.add_argument('--advertise-port', help='port to be called at '
                        '(ipa-advertise-port)')
    parser.add_argument('--listen-host', help='address to listen on '
                        '(ipa-listen-host); default: all')
    parser.add_argument('--listen-port', help='port to listen on '
                        '(ipa-listen-port); default: 9999, 0 for any')
    parser.add_argument('--lookup-timeout', metavar='SECONDS',
                        help='until an agent that no node belongs to ends '
                        '(ipa-lookup-timeout); default: 600')
    parser.add_argument('--lookup-interval', metavar='SECONDS',
                        help='shortest wait between two lookups '
                        '(ipa-lookup-interval); default: 1')
    parser.add_argument('--http-request-timeout', metavar='SECONDS',
                        help='of silence of the API '
                        '(ipa-http-request-timeout); default: 30')
    parser.add_argument('--ca-file', type=pathlib.Path, help='whom to trust '
                        f'as the API; default: {CA_FILE} if it is there, '
                        "else the system's list")
    parser.add_argument('--state-path', type=pathlib.Path,
                        default=STATE_PATH, help='folder on a tmpfs for '
                        f'token and certificate; default: {STATE_PATH}')
    parser.add_argument('--no-auto-tls', action='store_true',
                        help='serve plain HTTP (ipa-enable-auto-tls=false)')
    parser.add_argument('--debug', action='store_true',
                        help='log more (ipa-debug=true)')
    return parser


def _token(args: argparse.Namespace, kernel: dict[str, str]) -> str | None:
    token = kernel.get('ipa-agent-token')
    if args.agent_token_file:
        try:
            token = args.agent_token_file.read_text().strip()
        except OSError as exc:
            raise BadSettings(f'The file of the token: {exc}.') from exc
    if token and len(token) < _SHORTEST_TOKEN:
        raise BadSettings(
            f'An agent token has at least {_SHORTEST_TOKEN} characters.')
    return token or None


def read(argv: list[str] | None = None,
         cmdline: pathlib.Path = CMDLINE) -> Settings:
    """Read the kernel's command line and the arguments.

    :param argv: None for those of the process.
    :raises BadSettings: they make no sense.
    """
    args = _parser().parse_args(argv)
    try:
        kernel = kernel_parameters(cmdline.read_text())
    except OSError:
        # No /proc: then there are the arguments alone.
        kernel = {}

    def told(argument: str | None, name: str, default: str = '') -> str:
        return argument or kernel.get(name) or default

    def number(argument: str | None, name: str, default: float,
               least: float, most: float) -> float:
        return _number(name, told(argument, name, str(default)), least, most)

    ca_file = args.ca_file or (CA_FILE if CA_FILE.exists() else None)
    advertise_port = told(args.advertise_port, 'ipa-advertise-port')
    return Settings(
        api_urls=_urls(told(args.api_url, 'ipa-api-url')),
        agent_token=_token(args, kernel),
        advertise_host=told(args.advertise_host, 'ipa-advertise-host',
                            kernel.get('agent-ip', '')) or None,
        advertise_port=int(_number('ipa-advertise-port', advertise_port, 1,
                                   65535)) if advertise_port else None,
        listen_host=told(args.listen_host, 'ipa-listen-host') or None,
        listen_port=int(number(args.listen_port, 'ipa-listen-port', 9999, 0,
                               65535)),
        lookup_timeout=number(args.lookup_timeout, 'ipa-lookup-timeout',
                              600, 0, 86400),
        lookup_interval=number(args.lookup_interval, 'ipa-lookup-interval',
                               1, 0.01, 60),
        http_timeout=number(args.http_request_timeout,
                            'ipa-http-request-timeout', 30, 1, 600),
        auto_tls=not args.no_auto_tls and _truth(
            'ipa-enable-auto-tls', kernel.get('ipa-enable-auto-tls', '1')),
        ca_file=ca_file,
        state_path=args.state_path,
        booted_for_agent=bool(kernel.get('ipa-api-url')),
        debug=args.debug or _truth('ipa-debug',
                                   kernel.get('ipa-debug', '0')))
