# SPDX-License-Identifier: Apache-2.0
"""What a web server in front has received, on a disk that fails."""

import pytest

from stillframe.conductor.receiver import errors
from stillframe.conductor.receiver import transfers
from stillframe.conductor.receiver import web_server

NAME = 'a' * 32


@pytest.fixture
def web(tmp_path):
    made = web_server.WebServer(tmp_path)
    made.own()
    made.open(NAME)
    return made


@pytest.fixture
def transfer():
    return transfers.Transfer(NAME, 'snapshot', 'hash')


def test_files_go_to_uploads_as_they_begin(web, transfer, tmp_path):
    other = transfers.Transfer('b' * 32, 'other', 'hash')
    web.open(other.name)
    for number, one in enumerate((other, transfer), 1):
        web.let_in(one, 9, 9, 9)
        (tmp_path / f'web/incoming/{number}').write_bytes(b'a' * number)
    assert web.progress(other).bytes == 1
    assert web.progress(transfer).bytes == 2
    assert web.outstanding() == 8 + 7


@pytest.mark.parametrize('ask', [
    lambda web, transfer: web.progress(transfer),
    lambda web, transfer: web.outstanding(),
    lambda web, transfer: web.let_in(transfer, 1, 1, 1)])
@pytest.mark.parametrize('there', [True, False])
def test_a_folder_that_fails(web, transfer, tmp_path, ask, there):
    (tmp_path / 'web/incoming').rmdir()
    if there:
        (tmp_path / 'web/incoming').write_text('no folder any more')
    with pytest.raises(errors.StoreFailed):
        ask(web, transfer)


def test_an_image_that_cannot_be_looked_at(web, transfer, tmp_path):
    (tmp_path / 'web' / NAME).rmdir()
    assert web.progress(transfer) is None
    (tmp_path / 'web' / NAME).write_text('no folder any more')
    with pytest.raises(errors.StoreFailed):
        web.progress(transfer)
