# SPDX-License-Identifier: Apache-2.0
"""What the agent is told, and what it refuses."""

import pytest

from stillframe.agent import settings

TOKEN = 'k' * 40


@pytest.fixture
def read(tmp_path):
    """Read a kernel command line together with arguments."""
    def read(line, *argv):
        path = tmp_path / 'cmdline'
        path.write_text(line + '\n')
        return settings.read(list(argv), path)
    return read


@pytest.mark.parametrize('line, found', [
    ('quiet console=ttyS0', {'console': 'ttyS0'}),
    ('a=1 a=2', {'a': '2'}),
    ('a="one two" b=3', {'a': 'one two', 'b': '3'}),
    ('"a=one two" b=3', {'a': 'one two', 'b': '3'}),
    ('url=http://h/?x=y', {'url': 'http://h/?x=y'}),
    ('a="never ends', {'a': 'never ends'}),
    ('', {}),
])
def test_kernel_parameters(line, found):
    assert settings.kernel_parameters(line) == found


def test_all_that_the_kernel_can_say(read):
    told = read(
        'ipa-api-url=https://one:6385/,http://two ipa-agent-token=' + TOKEN
        + ' agent-ip=192.0.2.7 ipa-listen-host=:: ipa-listen-port=9998 '
        'ipa-advertise-port=19999 ipa-lookup-timeout=30 '
        'ipa-lookup-interval=2 ipa-http-request-timeout=7 '
        'ipa-enable-auto-tls=False ipa-debug=1 ipa-something-else=x')
    assert told == settings.Settings(
        api_urls=('https://one:6385', 'http://two'), agent_token=TOKEN,
        advertise_host='192.0.2.7', advertise_port=19999, listen_host='::',
        listen_port=9998, lookup_timeout=30, lookup_interval=2,
        http_timeout=7, auto_tls=False, booted_for_agent=True, debug=True,
        ca_file=told.ca_file)


def test_an_argument_outdoes_the_kernel(read, tmp_path):
    secret = tmp_path / 'token'
    secret.write_text('z' * 40 + '\n')
    told = read('ipa-api-url=http://kernel ipa-listen-port=1 agent-ip=a '
                'ipa-agent-token=' + TOKEN,
                '--api-url', 'http://argument', '--listen-port', '2',
                '--advertise-host', 'b', '--agent-token-file', str(secret),
                '--no-auto-tls', '--ca-file', '/a/b', '--state-path', '/c')
    assert (told.api_urls, told.listen_port, told.advertise_host,
            told.agent_token, told.auto_tls) == (
                ('http://argument',), 2, 'b', 'z' * 40, False)
    assert (str(told.ca_file), str(told.state_path)) == ('/a/b', '/c')


def test_only_the_kernel_says_that_the_machine_may_be_powered_off(read):
    assert not read('quiet', '--api-url', 'http://a').booted_for_agent
    assert read('ipa-api-url=http://a').booted_for_agent


def test_the_token_is_not_shown(read):
    assert TOKEN not in repr(
        read('ipa-api-url=http://a ipa-agent-token=' + TOKEN))


@pytest.mark.parametrize('line, says', [
    ('quiet', 'No URL of the bare-metal API'),
    ('ipa-api-url=,', 'No URL of the bare-metal API'),
    ('ipa-api-url=mdns', "'mdns' is no URL"),
    ('ipa-api-url=http://', 'is no URL'),
    ('ipa-api-url=http://a:b', 'is no URL'),
    ('ipa-api-url=http://a ipa-agent-token=short', 'at least 32'),
    ('ipa-api-url=http://a ipa-listen-port=x', "ipa-listen-port is 'x'"),
    ('ipa-api-url=http://a ipa-listen-port=65536', 'from 0 to 65535'),
    ('ipa-api-url=http://a ipa-advertise-port=0', 'from 1 to 65535'),
    ('ipa-api-url=http://a ipa-lookup-timeout=nan', 'must be a number'),
    ('ipa-api-url=http://a ipa-debug=perhaps', 'say true or false'),
])
def test_what_makes_no_sense(read, line, says):
    with pytest.raises(settings.BadSettings, match=says):
        read(line)


def test_a_token_file_that_is_not_there(read):
    with pytest.raises(settings.BadSettings, match='No such file'):
        read('ipa-api-url=http://a', '--agent-token-file', '/nowhere')
