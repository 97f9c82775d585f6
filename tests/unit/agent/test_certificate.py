# SPDX-License-Identifier: Apache-2.0
"""Keys and certificates, judged by OpenSSL."""

import socket
import ssl
import subprocess
import threading

import pytest

from stillframe.agent import certificate
from stillframe.agent import p256

# RFC 6979, A.2.5: a key and its public point.
KEY = 0xc9afa9d845ba75166b5c215767b1d6934e50c3db36e89b127b8a622b120f6721
PUBLIC = ('60fed4ba255a9d31c961eb74c6356d68c049b8923b61fa6ce669622e60f29fb6'
          '7903fe1008b8bc99a41ae9e95628bc64f2f1b20c2d7e9f5177a3c294d4462299')
ORDER = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551


def test_public_key_of_a_known_key():
    assert p256.public_key(KEY).hex() == '04' + PUBLIC


def test_the_group_has_its_order():
    assert p256.multiply(ORDER) is None
    assert p256.multiply(ORDER + 5) == p256.multiply(5)


def test_keys_differ_and_are_in_range():
    keys = {p256.new_key() for _ in range(50)}
    assert len(keys) == 50
    assert all(0 < key < ORDER for key in keys)


@pytest.fixture
def files(tmp_path):
    """Write a certificate and its key where OpenSSL can read them."""
    def write(made):
        both = tmp_path / 'both.pem'
        both.write_text(made.pem + made.key_pem)
        return str(both)
    return write


def handshake(path, pem, name, strict=True):
    """Shake hands with a server that has a certificate.

    :raises ssl.SSLError: the client does not trust it.
    """
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(path)
    trusting = ssl.create_default_context(cadata=pem)
    if strict:
        trusting.verify_flags |= ssl.VERIFY_X509_STRICT
    near, far = socket.socketpair()
    near.settimeout(20)
    far.settimeout(20)

    def serve():
        try:
            with serving.wrap_socket(far, server_side=True) as secured:
                secured.sendall(b'hello')
        except OSError:
            # The client says what it did not like.
            far.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with trusting.wrap_socket(near, server_hostname=name) as secured:
            return secured.recv(5)
    finally:
        near.close()
        thread.join(20)


@pytest.mark.parametrize('host', [
    '192.0.2.7', '2001:db8::7', 'node.example'])
@pytest.mark.parametrize('strict', [True, False])
def test_it_is_trusted_for_its_host(files, host, strict):
    made = certificate.make(host)
    assert handshake(files(made), made.pem, host, strict) == b'hello'


def test_it_is_not_trusted_for_another_host(files):
    made = certificate.make('192.0.2.7')
    with pytest.raises(ssl.SSLCertVerificationError, match='not valid for'):
        handshake(files(made), made.pem, '192.0.2.8')


def test_it_is_not_trusted_in_place_of_another(files):
    made = certificate.make('192.0.2.7')
    other = certificate.make('192.0.2.7')
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(files(made), other.pem, '192.0.2.7')


def test_many_of_them(tmp_path):
    """Numbers have leading zeroes and high bits now and then."""
    path = tmp_path / 'one.pem'
    for _ in range(40):
        made = certificate.make('2001:db8::7')
        path.write_text(made.pem)
        done = subprocess.run(
            ['openssl', 'verify', '-x509_strict', '-purpose', 'sslserver',
             '-CAfile', path, path], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr + made.pem + made.key_pem


@pytest.mark.parametrize('now, begins, ends', [
    (1_800_000_000, 'Jan 14 08:00:00 2027 GMT', 'Apr 15 08:00:00 2027 GMT'),
    (2_524_600_000, 'Dec 30 21:46:40 2049 GMT', 'Mar 31 21:46:40 2050 GMT'),
])
def test_when_it_is_valid(tmp_path, now, begins, ends):
    path = tmp_path / 'one.pem'
    path.write_text(certificate.make('192.0.2.7', now).pem)
    done = subprocess.run(
        ['openssl', 'x509', '-in', path, '-noout', '-startdate', '-enddate'],
        capture_output=True, text=True, check=True)
    assert done.stdout == f'notBefore={begins}\nnotAfter={ends}\n'


def test_the_key_is_not_shown():
    made = certificate.make('192.0.2.7')
    assert 'PRIVATE' not in repr(made)
