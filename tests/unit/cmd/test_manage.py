# SPDX-License-Identifier: Apache-2.0
"""stillframe-manage, as an operator runs it: in a process of its own."""

import json
import subprocess
import sys

import pytest

from stillframe.agent import version

PURGE = ('db', 'purge', '--older-than', '30')


@pytest.fixture
def manage(tmp_path):
    """Run a command on a database of the test's own."""
    def run(*words, connection=None, **default):
        default.setdefault('state_path', tmp_path)
        path = tmp_path / 'stillframe.conf'
        url = connection or f'sqlite:///{tmp_path}/db.sqlite'
        path.write_text(
            '[DEFAULT]\n'
            + ''.join(f'{key} = {value}\n' for key, value in default.items())
            + f'[database]\nconnection = {url}\n')
        return subprocess.run(
            [sys.executable, '-m', 'stillframe.cmd.manage', '--config-file',
             path, *words], capture_output=True, text=True, timeout=60)
    return run


def test_from_nothing_to_the_newest_schema(manage):
    done = manage('db', 'version')
    assert (done.returncode, done.stdout) == (1, '')
    assert 'Run: stillframe-manage db upgrade' in done.stderr
    done = manage(*PURGE)
    assert done.returncode == 1
    assert 'The database has no tables yet' in done.stderr
    done = manage('db', 'upgrade')
    assert (done.returncode, done.stderr) == (0, '')
    assert 'from revision none to' in done.stdout
    assert 'already' in manage('db', 'upgrade').stdout
    done = manage('db', 'version')
    assert done.returncode == 0
    assert done.stdout.strip().isdigit()
    done = manage(*PURGE)
    assert done.returncode == 0
    assert 'servers: 0 deleted' in done.stdout


def test_one_revision_at_a_time(manage):
    assert manage('db', 'upgrade', '--revision', '0001').returncode == 0
    done = manage('db', 'version')
    assert done.returncode == 0
    assert done.stdout.startswith('0001 (this code needs ')
    done = manage('db', 'upgrade', '--revision', 'nonsense')
    assert done.returncode == 1
    assert "nonsense" in done.stderr
    assert 'Traceback' not in done.stderr


def checks(done):
    return {one['check']: one['result']
            for one in json.loads(done.stdout)['checks']}


def test_upgrade_check(manage):
    done = manage('upgrade', 'check', '--json')
    assert done.returncode == 2
    assert checks(done)['Schema of the database'] == 2
    manage('db', 'upgrade')
    done = manage('upgrade', 'check', '--json')
    assert done.returncode == 0, done.stdout
    done = manage('upgrade', 'check', '--json', transport_url='inproc://',
                  state_path='/nonexistent')
    assert done.returncode == 1
    assert {check for check, result in checks(done).items() if result} == {
        'Message transport', 'State path'}
    assert 'Upgrade Check Results' in manage('upgrade', 'check').stdout


@pytest.mark.parametrize(('connection', 'said'), [
    ('mysql+pymysql://a:secret@127.0.0.1:1/x', 'does not answer'),
    ('postgresql+psycopg://a:secret@127.0.0.1:1/x', 'does not answer'),
    ('sqlite:////nonexistent/x', 'does not answer'),
    ('nonsense', 'is no database URL')])
def test_a_wrong_url_is_said_in_one_line(manage, connection, said):
    done = manage('db', 'upgrade', connection=connection)
    assert done.returncode == 1
    assert said in done.stderr
    assert 'Traceback' not in done.stderr
    assert 'secret' not in done.stderr


def test_a_purge_says_which_database_does_not_answer(manage):
    done = manage(*PURGE, connection='sqlite:////nonexistent/x')
    assert done.returncode == 1
    assert 'sqlite:////nonexistent/x ([database]connection) does not answer' \
        in done.stderr
    assert 'Traceback' not in done.stderr


@pytest.mark.parametrize('words', [('db', 'version'), PURGE])
def test_without_a_configuration_it_says_which_option(words):
    done = subprocess.run(
        [sys.executable, '-m', 'stillframe.cmd.manage', '--config-file',
         '/dev/null', *words],
        capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert '[database]connection is not set' in done.stderr
    assert 'sqlite:////var/lib/stillframe/stillframe.sqlite' in done.stderr


@pytest.mark.parametrize('words', [
    (), ('db', 'purge', '--older-than', '-1'),
    ('db', 'purge', '--older-than', 'ninety')])
def test_a_wrong_command_shows_how_it_is_used(manage, words):
    done = manage(*words)
    assert done.returncode == 2
    assert 'usage: stillframe-manage' in done.stderr
    assert '_days' not in done.stderr


def test_it_says_what_it_is(manage):
    assert 'Looks after the database' in manage('--help').stdout
    assert manage('--version').stdout.strip() == version.VERSION
