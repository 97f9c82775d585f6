# SPDX-License-Identifier: Apache-2.0
"""The command "stillframe" begins, answers, and ends as asked."""

import json
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request

import pytest

from tests.lab.processes import free_port
from tests.lab.processes import state_dir


class Embedded:
    """One process of the embedded default, with no hypervisor to find."""

    def __init__(self, folder, port):
        self.url = f'http://127.0.0.1:{port}'
        path = folder / f'{port}.conf'
        path.write_text(
            f'[DEFAULT]\nstate_path = {folder}/state\n'
            '[compute]\nconnection_uri = qemu:///session?socket=/none\n'
            f'[api]\nport = {port}\n')
        self._log = folder / f'{port}.log'
        with self._log.open('w') as log:
            self._process = subprocess.Popen(
                [sys.executable, '-m', 'stillframe.cmd.allinone',
                 '--config-file', path],
                stdout=subprocess.PIPE, stderr=log, text=True)

    def line(self):
        """The first line that it prints; empty when it ends before."""
        watchdog = threading.Timer(60, self._process.kill)
        watchdog.start()
        try:
            return self._process.stdout.readline()
        finally:
            watchdog.cancel()

    def get(self, path):
        """What it answers to a GET."""
        with urllib.request.urlopen(self.url + path, timeout=10) as answer:
            return json.load(answer)

    def end(self, number=None):
        """Its exit status, after a signal or by itself, and its log."""
        if number is not None:
            self._process.send_signal(number)
        try:
            status = self._process.wait(30)
        finally:
            self._process.kill()
            self._process.stdout.close()
        return status, self._log.read_text()


@pytest.fixture
def folder():
    """A folder with a short name."""
    with state_dir('em') as path:
        yield path


@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGINT])
def test_from_nothing_to_an_answer_and_to_the_end(folder, number):
    one = Embedded(folder, free_port())
    line = one.line()
    assert f'stillframe: {one.url}/v2.1 (auth noauth), worker ' in line
    assert 'on qemu:///session?socket=/none, state in ' in line
    assert one.get('/v2.1/servers') == {'servers': []}
    binaries = {each['binary']
                for each in one.get('/v2.1/os-services')['services']}
    assert 'stillframe-conductor' in binaries
    status, text = one.end(number)
    assert status == 0, text
    assert 'Traceback' not in text
    assert text.count('No connection to libvirt') == 1
    with pytest.raises(urllib.error.URLError):
        one.get('/v2.1/servers')


def test_a_second_one_on_the_same_state_path_says_why_not(folder):
    one = Embedded(folder, free_port())
    assert one.line()
    other = Embedded(folder, free_port())
    assert other.line() == ''
    status, text = other.end()
    assert status == 1
    assert 'is a compute worker on the state path' in text
    assert one.get('/v2.1/servers') == {'servers': []}
    assert one.end(signal.SIGTERM)[0] == 0


def test_a_port_that_is_taken_is_said(folder):
    with socket.create_server(('127.0.0.1', 0)) as taken:
        port = taken.getsockname()[1]
        one = Embedded(folder, port)
        assert one.line() == ''
        status, text = one.end()
    assert status == 1
    assert f'Nothing can listen on 127.0.0.1 port {port}' in text
