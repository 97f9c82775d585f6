# SPDX-License-Identifier: Apache-2.0
"""A Glance that misbehaves on demand; the real one cannot be made to.

It knows what our client uses of the Image API: create, upload, show, update
and delete.
"""

import contextlib
import hashlib
import http
from http import server
import json
import threading
import uuid


class GlanceDouble:
    """``with GlanceDouble() as glance: ...``.

    :ivar refuse: HTTP status for uploads; None to take them.
    :ivar refusals: how many uploads are refused before one is taken.
    :ivar lost_answers: how many uploads are taken without an answer.
    :ivar wrong_digest: say another digest than that of the data.
    :ivar hold: while it is set, an upload that has begun is not read on.
    :ivar mute: while it is set, an upload that is whole is not answered.
    :ivar began: set once an upload has begun.
    """

    def __init__(self):
        self.images = {}
        self.data = {}
        self.deleted = []
        self.refuse = None
        self.refusals = 0
        self.lost_answers = 0
        self.wrong_digest = False
        self.hold = threading.Event()
        self.mute = threading.Event()
        self.go = threading.Event()
        self.began = threading.Event()

    def __enter__(self):
        double = self

        class Handler(_Handler):
            glance = double

        self._server = server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever,
                                        name='glance-double')
        self._thread.start()
        return self

    def __exit__(self, *exc):
        self.go.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def url(self):
        """What to give as endpoint_override."""
        return f'http://127.0.0.1:{self._server.server_address[1]}'

    def queued(self):
        """Make an image without data; give its id."""
        image_id = str(uuid.uuid4())
        self.images[image_id] = {
            'id': image_id, 'status': 'queued', 'size': None, 'owner': None,
            'os_hash_algo': None, 'os_hash_value': None}
        return image_id

    def release(self):
        """Read on an upload that is held."""
        self.hold.clear()
        self.go.set()


class _Handler(server.BaseHTTPRequestHandler):
    glance: GlanceDouble
    protocol_version = 'HTTP/1.1'

    def log_message(self, *what):
        """Say nothing."""

    def _refuse(self, code):
        """Answer in HTML, as Glance does; clients read the code in it."""
        text = http.HTTPStatus(code).phrase
        data = (f'<html>\n <head>\n  <title>{code} {text}</title>\n </head>'
                f'\n <body>\n  <h1>{code} {text}</h1>\n  as the test '
                'wished<br /><br />\n </body>\n</html>').encode()
        self.send_response(code)
        self.send_header('Content-Type', 'text/html; charset=UTF-8')
        self.send_header('Content-Length', str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _answer(self, status, body=None):
        data = b'' if body is None else json.dumps(body).encode()
        self.send_response(status)
        if data:
            self.send_header('Content-Type', 'application/json')
        self.send_header('Content-Length', str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _body(self):
        return self.rfile.read(int(self.headers.get('Content-Length', 0)))

    def _image(self):
        image = self.glance.images.get(self.path.split('/')[3])
        if image is None:
            self._answer(404, {})
        return image

    def do_POST(self):
        """Make an image, or deactivate one."""
        if self.path.endswith('/actions/deactivate'):
            if (image := self._image()) is not None:
                image['status'] = 'deactivated'
                self._answer(204)
            return
        image = dict(json.loads(self._body()), status='queued', size=None,
                     os_hash_algo=None, os_hash_value=None)
        self.glance.images[image['id']] = image
        self._answer(201, image)

    def do_GET(self):
        """Show an image, or the schema that the client asks for."""
        if '/schemas/' in self.path:
            self._answer(200, {
                'name': 'image',
                'properties': {'min_disk': {'type': 'integer'}},
                'additionalProperties': {'type': ['string', 'null']}})
        elif (image := self._image()) is not None:
            if self.path.endswith('/file'):
                self._give(self.glance.data[image['id']])
            else:
                self._answer(200, image)

    def _give(self, data):
        """Give what an image has."""
        self.send_response(200)
        self.send_header('Content-Type', 'application/octet-stream')
        self.send_header('Content-Length', str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_PATCH(self):
        """Change an image."""
        changes = json.loads(self._body())
        if (image := self._image()) is not None:
            for change in changes:
                image[change['path'].lstrip('/')] = change['value']
            self._answer(200, image)

    def do_DELETE(self):
        """Delete an image."""
        if (image := self._image()) is not None:
            del self.glance.images[image['id']]
            self.glance.deleted.append(image['id'])
            self._answer(204)

    def do_PUT(self):
        """Take the data of an image."""
        glance = self.glance
        image = glance.images[self.path.split('/')[3]]
        data = bytearray()
        with contextlib.suppress(ConnectionError, ValueError):
            while count := int(self.rfile.readline(), 16):
                data += self.rfile.read(count)
                self.rfile.readline()
                glance.began.set()
                if glance.hold.is_set():
                    glance.go.wait(60)
            self.rfile.readline()
            if glance.refuse and glance.refusals:
                glance.refusals -= 1
                self._refuse(glance.refuse)
                return
            if image['id'] not in glance.images:
                # As the real one, when it was deleted meanwhile.
                self._answer(410, {})
                return
            image.update(
                status='active', size=len(data), os_hash_algo='sha512',
                os_hash_value='0' * 128 if glance.wrong_digest
                else hashlib.sha512(data).hexdigest())
            glance.data[image['id']] = data
            if glance.mute.is_set():
                glance.go.wait(60)
            if glance.lost_answers:
                glance.lost_answers -= 1
                self.close_connection = True
                return
            self._answer(204)
