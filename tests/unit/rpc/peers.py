# SPDX-License-Identifier: Apache-2.0
"""A worker's and a conductor's side of RPC, to call in tests."""

import queue
import threading

import oslo_messaging

from stillframe import context
from stillframe import exceptions


class Worker:
    """Takes what the API casts to a compute worker, in order."""

    target = oslo_messaging.Target(version='1.0')

    def __init__(self):
        self.got = queue.SimpleQueue()

    def quiesce_server(self, ctxt, server_id, timeout, mountpoints):
        self.got.put((ctxt, server_id, timeout, mountpoints))

    def ping(self, ctxt):
        return {'host': 'here', 'libvirt_connected': True, 'frozen': []}


class Conductor:
    """Answers a report of outcomes as the test says."""

    target = oslo_messaging.Target(version='1.0')

    def __init__(self):
        self.release = threading.Event()

    def report_outcomes(self, ctxt, host, outcomes):
        if host == 'fails':
            raise exceptions.StillframeError('no database here')
        if host == 'hangs':
            self.release.wait(20)
        return [{'id': one['id'], 'verdict': ctxt.request_id}
                for one in outcomes]

    def report_service(self, ctxt, host, binary, started_at, report_count,
                       capabilities, servers_digest):
        return {'resync': False}


def ctxt():
    """A context with something in each of the fields that matter."""
    return context.RequestContext(
        user_id='u1', project_id='p1', roles=['member'], is_admin=False,
        global_request_id='req-' + 36 * '0', overwrite=False)
