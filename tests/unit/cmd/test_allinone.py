# SPDX-License-Identifier: Apache-2.0
"""The embedded default: what the configuration leaves open is set."""

from oslo_config import cfg
import pytest

from stillframe import conf as stillframe_conf
from stillframe import exceptions
from stillframe.cmd import allinone
from stillframe.db import base


@pytest.fixture
def conf(tmp_path):
    """Read a configuration file into a configuration of the test's own."""
    def read(text=''):
        own = cfg.ConfigOpts()
        for group in stillframe_conf.GROUPS:
            group.register(own)
        path = tmp_path / 'stillframe.conf'
        path.write_text(f'[DEFAULT]\nstate_path = {tmp_path}/state\n{text}')
        own(['--config-file', str(path)], project='stillframe')
        return own
    return read


def test_nothing_else_is_needed(conf, tmp_path):
    own = conf()
    allinone.set_defaults(own)
    assert own.transport_url == 'inproc://'
    assert own.database.connection == (
        f'sqlite:///{tmp_path}/state/stillframe.sqlite')
    assert own.api.auth_strategy == 'noauth'


def test_what_is_configured_stays(conf):
    own = conf('transport_url = rabbit://a:b@c/\n'
               '[database]\nconnection = mysql+pymysql://a@b/c\n'
               '[api]\nauth_strategy = http_basic\nhost = 0.0.0.0\n')
    allinone.set_defaults(own)
    assert own.transport_url == 'rabbit://a:b@c/'
    assert own.database.connection == 'mysql+pymysql://a@b/c'
    assert own.api.auth_strategy == 'http_basic'


@pytest.mark.parametrize('host', ['0.0.0.0', '::', '192.0.2.1',  # noqa: S104
                                  'web.example.org'])
def test_nobody_from_outside_is_let_in_by_default(conf, host):
    with pytest.raises(exceptions.ConfigError, match='which others can'):
        allinone.set_defaults(conf(f'[api]\nhost = {host}\n'))


@pytest.mark.parametrize('host', ['127.0.0.1', '127.1.2.3', '::1',
                                  'localhost'])
def test_this_machine_is_let_in(conf, host):
    allinone.set_defaults(conf(f'[api]\nhost = {host}\n'))


def test_whoever_asks_for_it_gets_it(conf):
    allinone.set_defaults(conf(
        '[api]\nhost = 0.0.0.0\nauth_strategy = noauth\n'))


def test_a_state_path_that_cannot_be_made(conf, tmp_path):
    own = conf()
    (tmp_path / 'state').write_text('a file')
    with pytest.raises(exceptions.ConfigError, match='cannot be made'):
        allinone.prepare_state(own)


def test_a_database_that_is_none(conf, tmp_path):
    own = conf()
    allinone.set_defaults(own)
    (tmp_path / 'state').mkdir()
    (tmp_path / 'state/stillframe.sqlite').write_text('no database' * 100)
    try:
        with pytest.raises(exceptions.ConfigError, match='cannot be used'):
            allinone.prepare_state(own)
    finally:
        base.dispose()
