# SPDX-License-Identifier: Apache-2.0
"""A compute worker as a program of its own, with a stand-in conductor.

The worker is the real one; work reaches it and reports leave it by RPC
inside the process. A test talks to this program over a UNIX socket, a JSON
object a line: it sends what to cast and how the stand-in shall answer, and
gets every report. So the whole program can be killed like a real worker.
"""

import json
import os
import pathlib
import socket
import sys
import threading

import oslo_messaging

from stillframe import context
from stillframe import service
from stillframe.compute import worker
from stillframe.rpc import compute_api
from stillframe.rpc import transport
from stillframe.rpc import versions


class StandIn:
    """Takes reports as the conductor would, and passes them on."""

    target = oslo_messaging.Target(version=versions.CONDUCTOR_VERSION)

    def __init__(self, pass_on):
        self._pass_on = pass_on
        self.answers = {'verdict': 'applied', 'quiesced': {},
                        'resync': False, 'down': False,
                        **json.loads(os.environ['STAND_IN_ANSWERS'])}

    def _report(self, method, **what):
        if self.answers['down']:
            raise RuntimeError('the stand-in plays dead')
        self._pass_on({'report': method, **what})

    def report_service(self, ctxt, **what):
        self._report('service', **what)
        return {'resync': self.answers['resync']}

    def report_servers(self, ctxt, **what):
        self._report('servers', **what)
        return {'quiesced': self.answers['quiesced']}

    def report_image(self, ctxt, **what):
        self._report('image', **what)

    def report_outcomes(self, ctxt, **what):
        self._report('outcomes', **what)
        return [{'id': one['id'], 'verdict': self.answers['verdict']}
                for one in what['outcomes']]


class Door:
    """The socket to the test; a service."""

    name = 'door'

    def __init__(self, conf, path):
        self._conf = conf
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(str(path))
        self._lock = threading.Lock()
        self.stand_in = StandIn(self.send)
        self._thread = threading.Thread(target=self._listen, daemon=True)

    def send(self, message):
        with self._lock:
            self._socket.sendall(json.dumps(message).encode() + b'\n')

    def start(self):
        self._thread.start()

    def stop(self):
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(5)

    def _listen(self):
        api = compute_api.ComputeAPI(self._conf)
        host = self._conf.compute.host
        for line in self._socket.makefile():
            message = json.loads(line)
            if 'answers' in message:
                self.stand_in.answers.update(message['answers'])
                continue
            call = getattr(api, message['method'])
            ctxt = context.system_context(message['request_id'])
            if message['method'] == 'ping':
                self.send({'ping': call(ctxt, host, 5)})
            else:
                call(ctxt, host, **message['arguments'])


def main():
    conf = service.prepare(sys.argv[2:], prog='worker')
    door = Door(conf, pathlib.Path(sys.argv[1]))
    conductor = transport.get_server(
        conf, versions.CONDUCTOR_TOPIC, 'stand-in', [door.stand_in])
    conductor.start()
    status = service.run(
        [door, worker.Worker(conf)],
        started=lambda _services: door.send({'started': True}))
    conductor.stop()
    conductor.wait()
    transport.cleanup()
    return status


if __name__ == '__main__':
    sys.exit(main())
