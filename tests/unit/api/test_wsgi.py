# SPDX-License-Identifier: Apache-2.0
"""Which files the entry for WSGI servers reads."""

import os
import pathlib
import subprocess
import sys
import textwrap

import pytest


def run(tmp_path, code, **environment):
    """Run a program that imports the entry; gives what it prints."""
    done = subprocess.run(
        [sys.executable, '-c', textwrap.dedent(code), '--no-such-option'],
        capture_output=True, text=True, timeout=60, check=False,
        cwd=tmp_path,
        env={'PATH': os.defpath, 'HOME': str(tmp_path), **environment})
    assert done.returncode == 0, done.stderr
    return done.stdout


def configure(folder: pathlib.Path, name: str, text: str) -> None:
    """Write a configuration file."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(textwrap.dedent(text))


SEE = '''
    import stillframe.api.wsgi as entry
    from stillframe.conf import CONF
    assert callable(entry.application)
    print(CONF.api.max_limit, CONF.api.auth_strategy, CONF.config_file)
    '''

UPGRADE = '''
    from stillframe import service
    from stillframe.db import base
    from stillframe.db import migration
    base.configure(service.prepare(
        ['--config-file', 'stillframe.conf'], prog='test'))
    migration.upgrade()
    '''

BASE = '''
    [DEFAULT]
    transport_url = inproc://
    [api]
    auth_strategy = noauth
    max_limit = 7
    [database]
    connection = sqlite:///{folder}/test.sqlite
    '''


@pytest.fixture(scope='module')
def settings(tmp_path_factory):
    """The text of a configuration with a database that has its tables."""
    folder = tmp_path_factory.mktemp('wsgi')
    text = BASE.format(folder=folder)
    configure(folder, 'stillframe.conf', text)
    run(folder, UPGRADE)
    return text


def test_a_folder(tmp_path, settings):
    configure(tmp_path, 'stillframe.conf', settings)
    seen = run(tmp_path, SEE, OS_STILLFRAME_CONFIG_DIR=str(tmp_path))
    assert seen.startswith('7 noauth')
    assert str(tmp_path / 'stillframe.conf') in seen


def test_a_folder_with_parts(tmp_path, settings):
    configure(tmp_path, 'stillframe.conf', settings)
    configure(tmp_path / 'stillframe.conf.d', 'more.conf',
              '[api]\nmax_limit = 9\n')
    seen = run(tmp_path, SEE, OS_STILLFRAME_CONFIG_DIR=str(tmp_path))
    assert seen.startswith('9 noauth')


def test_named_files(tmp_path, settings):
    configure(tmp_path, 'one.conf', settings)
    configure(tmp_path, 'two.conf', '[api]\nmax_limit = 8\n')
    seen = run(tmp_path, SEE, OS_STILLFRAME_CONFIG_DIR=str(tmp_path),
               OS_STILLFRAME_CONFIG_FILES=f'one.conf; {tmp_path}/two.conf')
    assert seen.startswith('8 noauth')


def test_a_database_that_is_away(tmp_path):
    """The API starts all the same, and answers 503 until it is back."""
    text = BASE.format(folder=tmp_path).replace(
        f'sqlite:///{tmp_path}/test.sqlite',
        'mysql+pymysql://root@127.0.0.1:1/x')
    configure(tmp_path, 'stillframe.conf', text)
    seen = run(tmp_path, SEE, OS_STILLFRAME_CONFIG_DIR=str(tmp_path))
    assert seen.startswith('7 noauth')


def test_a_database_without_tables(tmp_path):
    configure(tmp_path, 'stillframe.conf', BASE.format(folder=tmp_path))
    with pytest.raises(AssertionError, match='stillframe-manage'):
        run(tmp_path, SEE, OS_STILLFRAME_CONFIG_DIR=str(tmp_path))


def test_keystone_without_an_account(tmp_path, settings):
    """It would answer 500 to everything."""
    configure(tmp_path, 'stillframe.conf', settings.replace('noauth',
                                                            'keystone'))
    with pytest.raises(AssertionError,
                       match=r'\[keystone_authtoken\]auth_type is not set'):
        run(tmp_path, SEE, OS_STILLFRAME_CONFIG_DIR=str(tmp_path))
