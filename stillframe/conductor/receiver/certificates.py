# SPDX-License-Identifier: Apache-2.0
"""The receiver's certificate: the operator's, or one made here.

One that was made here is kept, so that an agent which was told to trust it
may begin again after this conductor was restarted. It is its own CA.
"""

import datetime
import ipaddress
import os
import pathlib
import ssl

from cryptography import exceptions as crypto_exceptions
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID
from cryptography.x509.oid import NameOID
from oslo_config import cfg

from stillframe.conductor.receiver import errors

# What the clocks of a ramdisk and of this host may differ by.
_SKEW = datetime.timedelta(days=2)
_LIFE = datetime.timedelta(days=825)
# A certificate has to live for longer than any transfer.
_LEFT = datetime.timedelta(days=30)


def context(conf: cfg.ConfigOpts, folder: pathlib.Path,
            host: str) -> tuple[ssl.SSLContext, str | None]:
    """Give what TLS is spoken with, and the CA that agents trust.

    :param folder: where a certificate that is made here is kept.
    :param host: name or address under which agents come.
    :return: the CA in PEM; None: one that the ramdisk knows.
    :raises CannotReceive: the operator's certificate cannot be used.
    """
    group = conf.receiver
    certificate, key, ca = group.certificate, group.private_key, group.ca
    if bool(certificate) != bool(key):
        raise errors.CannotReceive(
            reason='certificate and private_key go together, and only one '
            'of the two is set')
    if not certificate:
        certificate, key = _own(folder, host)
        ca = ca or certificate
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    # A client that closes with a ticket unread resets the connection, and
    # what it sent last is lost.
    made.num_tickets = 0
    try:
        made.load_cert_chain(certificate, key, password=_no_passphrase)
    except (OSError, ValueError) as exc:
        raise errors.CannotReceive(
            reason=f'the certificate or its key cannot be used: {exc}'
        ) from exc
    return made, ca_text(ca)


def ca_text(path: str | None) -> str | None:
    """Read the CA that agents are told to trust.

    :raises CannotReceive: the file cannot be read, or is no certificate.
    """
    if not path:
        return None
    try:
        data = pathlib.Path(path).read_bytes()
        x509.load_pem_x509_certificates(data)
        return data.decode('ascii')
    except (OSError, ValueError) as exc:
        raise errors.CannotReceive(
            reason=f'the CA for agents cannot be used: {exc}') from exc


def _no_passphrase() -> str:
    # Without this OpenSSL would ask on the terminal.
    raise ValueError('the private key has a passphrase')


def _own(folder: pathlib.Path, host: str) -> tuple[str, str]:
    """Give certificate and key that were made here, made anew if need be."""
    path = folder / 'receiver.pem'
    if not _is_good(path, host):
        temporary = path.with_suffix('.new')
        temporary.unlink(missing_ok=True)
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL
                         | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with open(handle, 'wb') as file:
            file.write(_make(host))
            file.flush()
            os.fsync(file.fileno())
        os.rename(temporary, path)
    public = folder / 'receiver-ca.pem'
    public.write_bytes(x509.load_pem_x509_certificate(
        path.read_bytes()).public_bytes(serialization.Encoding.PEM))
    return str(public), str(path)


def _is_good(path: pathlib.Path, host: str) -> bool:
    """Tell whether what was kept may be used for some time yet."""
    try:
        data = path.read_bytes()
        found = x509.load_pem_x509_certificate(data)
        serialization.load_pem_private_key(data, None)
        names = found.extensions.get_extension_for_class(
            x509.SubjectAlternativeName).value
    except (OSError, ValueError, x509.ExtensionNotFound,
            crypto_exceptions.UnsupportedAlgorithm):
        return False
    left = found.not_valid_after_utc - datetime.datetime.now(datetime.UTC)
    return left > _LEFT and _name(host) in names


def _name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _make(host: str) -> bytes:
    """Make a key and a certificate for one name; PEM, one after the other."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(
        NameOID.COMMON_NAME, 'stillframe receiver')])
    now = datetime.datetime.now(datetime.UTC)
    public = key.public_key()
    made = (
        x509.CertificateBuilder()
        .subject_name(name).issuer_name(name).public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW).not_valid_after(now + _LIFE)
        .add_extension(x509.SubjectAlternativeName([_name(host)]), False)
        .add_extension(x509.BasicConstraints(True, 0), True)
        .add_extension(x509.KeyUsage(
            digital_signature=True, content_commitment=False,
            key_encipherment=False, data_encipherment=False,
            key_agreement=False, key_cert_sign=True, crl_sign=False,
            encipher_only=False, decipher_only=False), True)
        .add_extension(x509.ExtendedKeyUsage(
            [ExtendedKeyUsageOID.SERVER_AUTH]), False)
        .add_extension(
            x509.SubjectKeyIdentifier.from_public_key(public), False)
        .sign(key, hashes.SHA256()))
    return (key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption())
        + made.public_bytes(serialization.Encoding.PEM))
