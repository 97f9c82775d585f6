# SPDX-License-Identifier: Apache-2.0
"""Checking passwords against a file, and remembering that they were right."""

import os
import time

import bcrypt
import pytest

from stillframe import exceptions
from stillframe.api.auth import http_basic

# Slow enough to be told from an answer that is remembered.
COST = 10


def entry(user, password):
    """A line of the file."""
    digest = bcrypt.hashpw(password, bcrypt.gensalt(COST)).decode()
    return f'{user}:{digest}\n'


@pytest.fixture
def file(tmp_path):
    """A file with two users."""
    path = tmp_path / 'htpasswd'
    path.write_text(entry('ann', b'secret') + entry('bob', b'other'))
    return path


def test_right_and_wrong(file):
    passwords = http_basic.Passwords(str(file))
    for _ in range(2):
        assert passwords.are_right('ann', b'secret')
        assert passwords.are_right('bob', b'other')
        assert not passwords.are_right('ann', b'other')
        assert not passwords.are_right('bob', b'secret')
        assert not passwords.are_right('eve', b'secret')
        assert not passwords.are_right('', b'')


def test_a_long_password(file):
    """No more than the first 72 bytes count: so has it htpasswd."""
    long = b'x' * 72
    file.write_text(entry('ann', long))
    passwords = http_basic.Passwords(str(file))
    for more in (b'', b'y', b'y' * 10000):
        assert passwords.are_right('ann', long + more)
    assert not passwords.are_right('ann', b'y' * 10000)
    assert not passwords.are_right('eve', b'y' * 10000)


def test_name_and_password_are_kept_apart(file):
    passwords = http_basic.Passwords(str(file))
    assert passwords.are_right('ann', b'secret')
    assert not passwords.are_right('ann:sec', b'ret')
    assert not passwords.are_right('ann', b':secret')


def test_a_right_password_is_remembered(file):
    passwords = http_basic.Passwords(str(file))
    began = time.thread_time()
    assert passwords.are_right('ann', b'secret')
    first = time.thread_time() - began
    began = time.thread_time()
    for _ in range(10):
        assert passwords.are_right('ann', b'secret')
    assert time.thread_time() - began < first


def test_until_the_file_changes(file):
    passwords = http_basic.Passwords(str(file))
    assert passwords.are_right('ann', b'secret')
    replacement = file.with_suffix('.new')
    replacement.write_text(entry('ann', b'changed'))
    os.replace(replacement, file)
    assert not passwords.are_right('ann', b'secret')
    assert passwords.are_right('ann', b'changed')
    assert not passwords.are_right('bob', b'other')


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(exceptions.ConfigError, match='nothing.*htpasswd'):
        http_basic.Passwords(str(tmp_path / 'nothing'))


def test_a_file_that_is_no_htpasswd_file(file):
    file.write_text('ann:secret\n')
    with pytest.raises(exceptions.ConfigError, match='bcrypt'):
        http_basic.Passwords(str(file))
