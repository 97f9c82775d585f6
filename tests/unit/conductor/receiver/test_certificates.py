# SPDX-License-Identifier: Apache-2.0
"""Certificates: made here, kept, and the operator's own."""

import datetime
import ssl
import stat
import subprocess

import pytest

from stillframe.conductor.receiver import certificates
from stillframe.conductor.receiver import errors


def own(conf, folder, host='127.0.0.1'):
    return certificates.context(conf, folder, host)[1]


def shakes(server, ca, host):
    """Shake hands in memory, as strict as a client can be."""
    client = ssl.create_default_context(cadata=ca)
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [client.wrap_bio(down, up, server_hostname=host),
            server.wrap_bio(up, down, server_side=True)]
    for _ in range(6):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                pass
    return ends[0].version()


@pytest.mark.parametrize('host', ['127.0.0.1', '::1', 'store.example.org'])
def test_clients_trust_it(conf, tmp_path, host):
    made, ca = certificates.context(conf, tmp_path, host)
    assert shakes(made, ca, host) == 'TLSv1.3'
    with pytest.raises(ssl.SSLCertVerificationError):
        shakes(made, ca, 'other.example.org')


def test_it_is_kept(conf, tmp_path):
    assert own(conf, tmp_path) == own(conf, tmp_path)
    assert own(conf, tmp_path, 'other.example.org') != own(
        conf, tmp_path)
    mode = stat.S_IMODE((tmp_path / 'receiver.pem').stat().st_mode)
    assert mode == 0o600


def test_the_agent_gets_no_key(conf, tmp_path):
    assert 'PRIVATE' not in own(conf, tmp_path)


def test_an_old_one_is_made_anew(conf, tmp_path, monkeypatch):
    before = own(conf, tmp_path)
    monkeypatch.setattr(certificates, '_LEFT', datetime.timedelta(days=9999))
    assert own(conf, tmp_path) != before


@pytest.mark.parametrize('damage', [b'', b'no certificate'])
def test_a_damaged_one_is_made_anew(conf, tmp_path, damage):
    own(conf, tmp_path)
    (tmp_path / 'receiver.pem').write_bytes(damage)
    made, ca = certificates.context(conf, tmp_path, '127.0.0.1')
    assert shakes(made, ca, '127.0.0.1')


@pytest.fixture
def operators(conf, tmp_path):
    """A certificate of the operator's."""
    folder = tmp_path / 'pki'
    folder.mkdir()
    subprocess.run(
        ['openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt',
         'ec_paramgen_curve:P-256', '-nodes', '-subj', '/CN=x', '-addext',
         'subjectAltName=DNS:x.example.org', '-keyout', folder / 'key',
         '-out', folder / 'crt'], check=True, capture_output=True)
    conf.set_override('certificate', str(folder / 'crt'), 'receiver')
    conf.set_override('private_key', str(folder / 'key'), 'receiver')
    return folder


def test_the_operators_own(conf, tmp_path, operators):
    made, ca = certificates.context(conf, tmp_path, 'x.example.org')
    assert ca is None
    conf.set_override('ca', str(operators / 'crt'), 'receiver')
    made, ca = certificates.context(conf, tmp_path, 'x.example.org')
    assert ca == (operators / 'crt').read_text()
    assert not (tmp_path / 'receiver.pem').exists()


@pytest.mark.parametrize(('name', 'content'), [
    ('certificate', 'nothing'), ('private_key', 'nothing'),
    ('ca', 'nothing'), ('certificate', None), ('private_key', None),
    ('ca', None)])
def test_one_that_cannot_be_used(conf, tmp_path, operators, name, content):
    path = tmp_path / 'bad'
    if content is not None:
        path.write_text(content)
    conf.set_override(name, str(path), 'receiver')
    with pytest.raises(errors.CannotReceive):
        certificates.context(conf, tmp_path, 'x.example.org')


def test_one_without_the_other(conf, tmp_path, operators):
    conf.clear_override('private_key', 'receiver')
    with pytest.raises(errors.CannotReceive, match='go together'):
        certificates.context(conf, tmp_path, 'x.example.org')


def test_a_key_with_a_passphrase_asks_nobody(conf, tmp_path, operators):
    subprocess.run(
        ['openssl', 'ec', '-in', operators / 'key', '-aes128', '-passout',
         'pass:abcd', '-out', operators / 'locked'], check=True,
        capture_output=True)
    conf.set_override('private_key', str(operators / 'locked'), 'receiver')
    with pytest.raises(errors.CannotReceive):
        certificates.context(conf, tmp_path, 'x.example.org')
