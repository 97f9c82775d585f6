# SPDX-License-Identifier: Apache-2.0
"""The connection to a libvirt that comes late, by libvirt's test driver."""

import logging
import threading

import pytest

from stillframe.compute import inventory
from stillframe.compute import surveyor
from stillframe.compute.libvirt import host
from stillframe.conf import CONF
from tests.lab.processes import wait_until

NODE = '<node><cpu><mhz>6000</mhz><model>i986</model></cpu></node>'


@pytest.fixture
def late(tmp_path):
    """A connection to what a file describes, which is not there yet."""
    connected = threading.Event()
    made = host.Host(f'test://{tmp_path}/node.xml', 1, 1.0, connected.set,
                     lambda event: None)
    made.connected = connected
    made.file = tmp_path / 'node.xml'
    yield made
    made.stop()


def test_its_absence_is_said_once_and_its_coming(late, caplog):
    caplog.set_level(logging.DEBUG, host.LOG.name)

    def said(text):
        return [one.levelno for one in caplog.records if text in one.message]

    late.start(10)
    wait_until(lambda: len(said('No connection to libvirt')) >= 4, 20,
               'some tries')
    late.file.write_text(NODE)
    assert late.connected.wait(20)
    tries = said('No connection to libvirt')
    assert tries == [logging.ERROR] + [logging.DEBUG] * (len(tries) - 1)
    assert said('Connected to libvirt') == [logging.INFO]
    text, = (one.message for one in caplog.records
             if 'Connected to libvirt' in one.message)
    assert ' s: ' in text


def test_a_pass_without_it_adds_no_complaint(late, caplog):
    caplog.set_level(logging.DEBUG)
    late.start(10)
    assert surveyor.Surveyor(
        CONF, late, inventory.Inventory()).full_pass() == []
    passes = [one.levelno for one in caplog.records
              if 'No full pass' in one.message]
    assert passes == [logging.DEBUG]
