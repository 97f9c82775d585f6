# SPDX-License-Identifier: Apache-2.0
"""What an agent reports of what it sent: nothing is believed."""

import base64
import subprocess

import pytest

from stillframe.conductor.receiver import errors
from stillframe.conductor.receiver import results

SHA = 'ab' * 32


def record(**values):
    found = {'version': 1, 'size': 10, 'sha256': SHA, 'patch': None,
             'disk_format': 'qcow2'}
    return found | values


def patch(data, offset=0):
    return {'offset': offset, 'data': base64.b64encode(data).decode()}


def test_a_good_one():
    wanted = results.read(record(patch=patch(b'QFI')))
    assert (wanted.size, wanted.sha256, wanted.patch) == (10, SHA, b'QFI')
    results.compare(wanted, 10, SHA)


@pytest.mark.parametrize('values', [
    {'version': 2}, {'size': 0}, {'size': -1}, {'size': '10'},
    {'size': True}, {'size': None}, {'sha256': None}, {'sha256': 'AB' * 32},
    {'sha256': SHA + '\n'}, {'sha256': 5}, {'patch': 'QFI'},
    {'patch': []}, {'patch': patch(b'QFI', 1)}, {'patch': patch(b'')},
    {'patch': patch(b'a' * 5000)}, {'patch': {'offset': 0}},
    {'patch': {'offset': False, 'data': 'QQ=='}},
    {'patch': {'offset': 0, 'data': '!!'}},
    {'patch': {'offset': 0, 'data': 'ü'}},
    {'patch': {'offset': 0, 'data': 'A' * 1_000_000}},
    {'patch': patch(b'QFI'), 'disk_format': 'raw'}])
def test_bad_ones(values):
    with pytest.raises(errors.BadResult):
        results.read(record(**values))


def test_what_differs_is_named():
    wanted = results.read(record())
    with pytest.raises(errors.Differs) as caught:
        results.compare(wanted, 11, SHA)
    assert '11 here and 10 there' in caught.value.message
    with pytest.raises(errors.Differs) as caught:
        results.compare(wanted, 10, 'cd' * 32)
    assert 'SHA-256' in caught.value.message
    with pytest.raises(errors.Differs):
        results.compare(wanted, 10, None)


@pytest.fixture
def image(tmp_path):
    """A qcow2 file, and the header that is missing from its beginning."""
    path = tmp_path / 'image'
    subprocess.run(['qemu-img', 'create', '-f', 'qcow2', path, '16M'],
                   check=True, capture_output=True)
    blob = path.read_bytes()
    path.write_bytes(bytes(512) + blob[512:])
    return path, blob


def complete(path, data):
    results.complete(path, results.read(record(patch=patch(data))))


def test_the_header_is_completed_and_may_be_again(image):
    path, blob = image
    for _ in range(2):
        complete(path, blob[:512])
        assert path.read_bytes() == blob


def test_no_header_to_complete(image):
    path, _ = image
    before = path.read_bytes()
    results.complete(path, results.read(record()))
    assert path.read_bytes() == before


def bad(path, data):
    before = path.read_bytes()
    with pytest.raises(errors.BadImage) as caught:
        complete(path, data)
    assert path.read_bytes() == before
    return caught.value.message


def test_no_header_at_all(image):
    path, blob = image
    assert 'does not begin like' in bad(path, b'\0' * 512)
    assert 'shorter' not in bad(path, b'#!/bin/sh' + blob[9:512])


def test_it_names_a_file_of_the_host(image, tmp_path):
    path, _ = image
    other = tmp_path / 'other'
    subprocess.run(['qemu-img', 'create', '-f', 'qcow2', '-b', '/etc/passwd',
                    '-F', 'raw', other, '16M'], check=True,
                   capture_output=True)
    assert 'another file' in bad(path, other.read_bytes()[:1024])


def test_a_link_is_not_followed(image, tmp_path):
    path, blob = image
    link = tmp_path / 'link'
    link.symlink_to(path)
    with pytest.raises(errors.StoreFailed):
        complete(link, blob[:512])
