# SPDX-License-Identifier: Apache-2.0
"""A database that goes away is an answer at once, and no harm when back."""

import time

import pytest
import sqlalchemy as sa

from stillframe import exceptions
from stillframe.conf import CONF
from stillframe.db import base
from stillframe.db import migration
from stillframe.db import models
from stillframe.db import transitions
from tests.integration.db.conftest import SERVERS
from tests.integration.db.conftest import configured
from tests.unit.db import scenes


@pytest.fixture(params=sorted(SERVERS))
def own(request):
    """A database server of the test alone, and its database in use."""
    with (SERVERS[request.param]() as server,
          configured(server.create('outage'))):
        migration.upgrade()
        if request.param == 'mariadb':
            # The laboratory's would lose a second when killed.
            with base.writer() as conn:
                conn.exec_driver_sql(
                    'SET GLOBAL innodb_flush_log_at_trx_commit = 2')
        yield server


def refused(call):
    """The call says that there is no database, within seconds."""
    begun = time.monotonic()
    with pytest.raises(exceptions.ServiceUnavailable) as caught:
        call()
    assert 'The database does not answer' in str(caught.value)
    assert time.monotonic() - begun < 10


def test_gone_and_back(own):
    scenes.report(scenes.server())
    request_id = scenes.begin('quiesce')
    own.kill()
    refused(scenes.state)
    refused(lambda: scenes.begin('quiesce'))
    told = scenes.outcome('quiesce', request_id)
    refused(lambda: scenes.outcomes.apply(scenes.HOST, told))
    own.start()
    assert scenes.state() == ('active', 'quiescing')
    assert scenes.outcomes.apply(scenes.HOST, told) == 'applied'
    assert scenes.state() == ('quiesced', None)


def test_gone_in_the_middle_of_a_transaction(own):
    scenes.report(scenes.server())

    def interrupted():
        with base.writer() as conn:
            conn.execute(models.servers.update().values(name='half'))
            own.kill()
            conn.execute(models.servers.update().values(name='done'))

    refused(interrupted)
    own.start()
    assert transitions.check(scenes.WEB, 'quiesce')['name'] == 'web'


def test_gone_when_it_was_to_commit(own):
    scenes.report(scenes.server())
    engine = base.get_engine()

    def kill(_conn):
        own.kill()

    sa.event.listen(engine, 'commit', kill)
    try:
        # It may have been written, with the answer lost.
        with pytest.raises(exceptions.CommitUncertain) as caught:
            scenes.begin('quiesce')
    finally:
        sa.event.remove(engine, 'commit', kill)
    assert 'not known whether that was done' in str(caught.value)
    assert 'Nothing was changed' not in str(caught.value)
    own.start()
    assert scenes.state() in (('active', None), ('active', 'quiescing'))


def test_not_there_when_a_process_begins(own):
    own.stop()
    base.dispose()
    base.configure(CONF)
    refused(lambda: scenes.report(scenes.server()))
    own.start()
    scenes.report(scenes.server())
    assert scenes.state() == ('active', None)
