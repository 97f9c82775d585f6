# SPDX-License-Identifier: Apache-2.0
"""A receiver of one test, and clients of it."""

import base64
import contextlib
import hashlib
import http.client
import pathlib
import ssl
import subprocess
import urllib.parse
import uuid

from stillframe.conductor import receiver
from stillframe.conf import CONF

#: Bytes of a piece that a client sends.
PIECE = 1 << 16


class Depot:
    """A receiver with a folder of its own; the database is there.

    :ivar receiver: the service.
    """

    def __init__(self, path: pathlib.Path, **settings: object):
        self.path = path / 'transfers'
        self._settings = {'path': str(self.path), 'min_free': 0} | settings

    def __enter__(self):
        for key, value in self._settings.items():
            CONF.set_override(key, value, 'receiver')
        self.receiver = receiver.Receiver(CONF)
        self.receiver.start()
        return self

    def __exit__(self, *_exc):
        self.receiver.stop()
        for key in self._settings:
            CONF.clear_override(key, 'receiver')

    def open(self):
        """Open a transfer; give the snapshot's id and the ticket."""
        snapshot = str(uuid.uuid4())
        return snapshot, self.receiver.open(snapshot)

    def progress(self, snapshot):
        """Tell how far a transfer is."""
        return self.receiver.progress(snapshot)

    def files(self):
        """Name the files of images, whole or not."""
        return sorted(one.name for one in self.path.glob('*')
                      if one.suffix in ('.part', '.image'))


def authorization(ticket):
    pair = f'{ticket.username}:{ticket.password}'.encode()
    return 'Basic ' + base64.b64encode(pair).decode()


def connect(ticket, timeout=60):
    """Connect as an agent does."""
    url = urllib.parse.urlsplit(ticket.url)
    if url.scheme == 'http':
        line = http.client.HTTPConnection(url.hostname, url.port,
                                          timeout=timeout)
    else:
        line = http.client.HTTPSConnection(
            url.hostname, url.port, timeout=timeout,
            context=ssl.create_default_context(cadata=ticket.ca))
    line.connect()
    return line


def begin(ticket, length=None, **headers):
    """Send the head of a PUT; chunked without a length."""
    line = connect(ticket)
    line.putrequest('PUT', urllib.parse.urlsplit(ticket.url).path)
    line.putheader('Authorization', authorization(ticket))
    if length is None:
        line.putheader('Transfer-Encoding', 'chunked')
    else:
        line.putheader('Content-Length', str(length))
    for key, value in headers.items():
        line.putheader(key.replace('_', '-'), value)
    line.endheaders()
    return line


def answer(line):
    """Give status, headers and text of the answer."""
    with contextlib.closing(line):
        response = http.client.HTTPResponse(line.sock, method='PUT')
        response.begin()
        return response.status, response.headers, response.read().decode()


def put(ticket, data, chunk=None, **headers):
    """Send an image as a whole; give the answer."""
    if chunk is None:
        line = begin(ticket, len(data), **headers)
        line.send(data)
        return answer(line)
    headers.setdefault('X_Stillframe_Limit', str(len(data)))
    line = begin(ticket, **headers)
    for at in range(0, len(data), chunk):
        part = data[at:at + chunk]
        line.send(b'%x\r\n%s\r\n' % (len(part), part))
    line.send(b'0\r\n\r\n')
    return answer(line)


def request(ticket, method, path=None, body=None, **headers):
    """Send any other request; give the answer."""
    line = connect(ticket)
    headers = {key.replace('_', '-'): value
               for key, value in headers.items()}
    with contextlib.closing(line):
        line.request(method, path or urllib.parse.urlsplit(ticket.url).path,
                     body, {'Authorization': authorization(ticket),
                            **headers})
        response = line.getresponse()
        return response.status, response.headers, response.read()


def result(data, **more):
    """Give the record that an agent makes of what it sent."""
    return {'version': 1, 'transport': 'webdav', 'disk_format': 'qcow2',
            'size': len(data), 'sha256': hashlib.sha256(data).hexdigest(),
            'patch': None} | more


def qcow2(path, megabytes=4):
    """Make a qcow2 file with random data; give what is in it."""
    raw, made = path / 'source.raw', path / 'source.qcow2'
    with open('/dev/urandom', 'rb') as source:
        raw.write_bytes(source.read(megabytes << 20))
    subprocess.run(['qemu-img', 'convert', '-f', 'raw', '-O', 'qcow2', raw,
                    made], check=True)
    return made.read_bytes()
