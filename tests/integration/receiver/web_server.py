# SPDX-License-Identifier: Apache-2.0
"""A web server for images that misbehaves on demand."""

import contextlib
from http import server
import ssl
import subprocess
import threading


class WebServer:
    """``with WebServer(folder) as web: ...``; keeps images in memory.

    :ivar files: content by path.
    :ivar asked: the requests, as method and path.
    :ivar answers: status codes for the next PUTs, before it takes one.
    :ivar damage: change what is sent.
    :ivar unreadable: HTTP status for GET; None to give it.
    :ivar lose: take the next PUT, and give no answer.
    :ivar halves: how many of the next PUTs to take half of; what is
        answered then, None for a reset.
    :ivar rivals: what another one puts there during one of the next PUTs;
        each with what is answered then, None for a reset.
    :ivar streams: write what is sent as it comes, and keep what came of
        what broke off.
    :ivar begun: set when something came of what is written so.
    :ivar mute: answer no GET.
    :ivar endless: give bytes without an end: seconds between two of them.
    """

    def __init__(self, folder):
        self.files = {}
        self.over = threading.Event()
        self.asked = []
        self.answers = []
        self.damage = False
        self.unreadable = None
        self.lose = False
        self.halves = []
        self.rivals = []
        self.streams = False
        self.writing = threading.Lock()
        self.begun = threading.Event()
        self.mute = False
        self.endless = None
        self.cafile = str(folder / 'web.pem')
        subprocess.run(
            ['openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt',
             'ec_paramgen_curve:P-256', '-nodes', '-subj', '/CN=web',
             '-addext', 'subjectAltName=IP:127.0.0.1', '-keyout',
             self.cafile, '-out', folder / 'web.crt'], check=True,
            capture_output=True)
        with open(self.cafile, 'a') as file:
            file.write((folder / 'web.crt').read_text())

    def __enter__(self):
        web = self

        class Here(Handler):
            store = web

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.cafile)
        self._server = server.ThreadingHTTPServer(('127.0.0.1', 0), Here)
        self._server.daemon_threads = True
        self._server.socket = context.wrap_socket(
            self._server.socket, server_side=True,
            do_handshake_on_connect=False)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()
        return self

    def __exit__(self, *_exc):
        self.over.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def url(self):
        return f'https://127.0.0.1:{self._server.server_address[1]}/images'


class Handler(server.BaseHTTPRequestHandler):
    store: WebServer
    protocol_version = 'HTTP/1.1'

    def log_message(self, *what):
        """Say nothing."""

    def _answer(self, status, body=b''):
        self.send_response(status)
        if status == 307:
            self.send_header('Location', '/elsewhere')
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        if self.command != 'HEAD':
            self.wfile.write(body)

    def do_PUT(self):
        """Take an image."""
        web = self.store
        web.asked.append(('PUT', self.path))
        if web.streams:
            self._write()
            return
        data = self.rfile.read(int(self.headers['Content-Length']))
        if web.answers:
            self._answer(web.answers.pop(0))
            return
        if self.headers['If-None-Match'] == '*' and self.path in web.files:
            self._answer(412)
            return
        if web.halves:
            web.files[self.path] = data[:len(data) // 2]
            self._fail(web.halves.pop(0))
            return
        if web.rivals:
            web.files[self.path], status = web.rivals.pop(0)
            self._fail(status)
            return
        web.files[self.path] = data[:-1] + b'x' if web.damage else data
        if web.lose:
            web.lose = False
            self.close_connection = True
            return
        self._answer(201)

    def _fail(self, status):
        if status is None:
            self.close_connection = True
        else:
            self._answer(status)

    def _write(self):
        left = int(self.headers['Content-Length'])
        with self.store.writing:
            # As with a file: who removes its name does not end the writing.
            file = self.store.files[self.path] = bytearray()
            while left and (piece := self.rfile.read1(left)):
                file += piece
                left -= len(piece)
                self.store.begun.set()
        if left:
            self.close_connection = True
        else:
            self._answer(201)

    def do_GET(self):
        """Give an image."""
        self.store.asked.append((self.command, self.path))
        with self.store.writing:
            data = self.store.files.get(self.path)
        if self.store.mute and self.command == 'GET':
            self.close_connection = True
            self.store.over.wait(60)
        elif data is None:
            self._answer(404)
        elif self.store.unreadable and self.command == 'GET':
            self._answer(self.store.unreadable)
        elif self.store.endless is not None and self.command == 'GET':
            self._drip(data)
        else:
            self._answer(200, data)

    def _drip(self, data):
        """Give the image, and more; it ends when nobody reads."""
        self.send_response(200)
        self.end_headers()
        self.close_connection = True
        with contextlib.suppress(OSError):
            if not self.store.endless:
                self.wfile.write(data)
            while not self.store.over.wait(self.store.endless):
                self.wfile.write(b'a' if self.store.endless else data)

    do_HEAD = do_GET

    def do_DELETE(self):
        """Remove an image."""
        self.store.asked.append(('DELETE', self.path))
        self.store.files.pop(self.path, None)
        self._answer(204)
