# SPDX-License-Identifier: Apache-2.0
"""The freeze journal on disk."""

import dataclasses
import json

import pytest

from stillframe.compute import clock
from stillframe.compute import journal

SERVER = 'b4b9a5a8-5c5e-4d0a-9a57-1c6c1d7a2f10'


def a_record(**changes):
    return dataclasses.replace(journal.Record(
        server_id=SERVER, request_id='req-1', connection_uri='test:///',
        domain_id=3, boot_id=clock.boot_id(), state=journal.FREEZING,
        timeout=10.0, deadline=clock.now() + 10, called=clock.now(),
        started_at=clock.wall()), **changes)


@pytest.fixture
def folder(tmp_path):
    return journal.Journal(tmp_path)


@pytest.mark.parametrize('record', [
    a_record(),
    a_record(state=journal.THAWING, ending=journal.Ending(
        'unquiesce', 'req-2', None, clock.wall()))])
def test_there_and_back(folder, record):
    folder.write(record)
    assert folder.read(SERVER) == record
    assert list(folder.servers()) == [SERVER]
    folder.remove(SERVER)
    assert folder.read(SERVER) is None
    assert list(folder.folder.iterdir()) == []


def test_a_record_of_a_newer_writer_is_understood(folder):
    folder.write(a_record())
    path, = folder.folder.iterdir()
    values = json.loads(path.read_text())
    values['news'] = 'of later'
    path.write_text(json.dumps(values))
    assert folder.read(SERVER).request_id == 'req-1'


@pytest.mark.parametrize('text', [
    '', '{', '[]', '{}', 'null', '"x"', '{"server_id": 1}', '[' * 100_000])
def test_what_cannot_be_read_is_never_taken_for_nothing(folder, text):
    folder.write(a_record())
    path, = folder.folder.iterdir()
    path.write_text(text)
    with pytest.raises(journal.Unreadable):
        folder.read(SERVER)
    assert list(folder.servers()) == [SERVER]


@pytest.mark.parametrize('change', [
    {'version': 2}, {'deadline': 'soon'}, {'server_id': 'another'},
    {'ending': 'x'}, {'ending': {'kind': 1}}, {'ending': []},
    {'deadline': 10 ** 400}, {'deadline': float('nan')},
    {'deadline': float('inf')}, {'deadline': True}, {'timeout': None},
    {'called': 'x'}, {'may_freeze_until': 'x'}, {'domain_id': '3'},
    {'state': 7}, {'told': 'yes'}, {'filesystems': 1.5},
    {'connection_uri': None}])
def test_a_record_of_another_kind_is_unreadable(folder, change):
    folder.write(a_record())
    path, = folder.folder.iterdir()
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(journal.Unreadable):
        folder.read(SERVER)


@pytest.mark.parametrize('name', ['', '../etc/passwd', 'x', SERVER + '/..'])
def test_only_servers_have_records(folder, name):
    with pytest.raises(ValueError, match='not the id'):
        folder.read(name)


def test_halves_are_swept_and_never_read(folder):
    folder.write(a_record())
    half = folder.folder / f'{SERVER}.freeze.json.tmp'
    half.write_text('{')
    other = folder.folder / f'{SERVER}.result.json.tmp'
    other.write_text('{')
    assert list(folder.servers()) == [SERVER]
    folder.sweep_records()
    assert not half.exists()
    assert other.exists()
    folder.sweep_results()
    assert not other.exists()


def test_a_result_belongs_to_one_freeze(folder):
    record = a_record()
    folder.write(record)
    result = journal.Result(
        SERVER, 'req-1', gone=False, was_frozen=True, thawed=1,
        boot_id=clock.boot_id(), moment=clock.now(), at=clock.wall())
    folder.write_result(result)
    assert folder.result(record) == result
    assert folder.result(a_record(request_id='req-2')) is None


def test_what_is_left(monkeypatch):
    assert 9 < a_record().remaining() <= 10
    assert a_record(deadline=clock.now() - 1).remaining() <= -1
    assert a_record(boot_id='another').remaining() < 0
    # Nobody was granted as long: a damaged disk would put off its thaw.
    assert a_record(deadline=clock.now() + 1e9).remaining() < 0
