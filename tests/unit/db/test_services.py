# SPDX-License-Identifier: Apache-2.0
"""Services report that they are alive; what is late changes nothing."""

import concurrent.futures

import pytest

from stillframe.db import base
from stillframe.db import models
from stillframe.db import services
from tests.unit.db import scenes

pytestmark = pytest.mark.usefixtures('database')


def report(count=1, started_at='2026-01-31T10:00:00', host='h', **values):
    return services.report(host, services.COMPUTE, started_at, count,
                           values)


def seen():
    return services.get('h', services.COMPUTE)


def test_the_first_report_makes_the_service():
    assert report(libvirt='9.0') == ''
    row = seen()
    assert row['capabilities'] == {'libvirt': '9.0'}
    assert row['report_count'] == 1
    assert services.get('h', services.CONDUCTOR) is None


def test_the_digest_is_that_of_the_servers_applied():
    report()
    scenes.report(host='h', digest='abc')
    assert report(2) == 'abc'


def test_a_late_report_of_the_same_life_is_dropped():
    report(5, libvirt='10.0')
    before = seen()
    report(4, libvirt='9.0')
    assert seen() == before


def test_a_report_of_a_new_life_counts_from_its_start():
    report(5)
    before = seen()
    report(1, started_at='2026-01-31T11:00:00', libvirt='10.0')
    row = seen()
    assert row['report_count'] == 1
    assert row['last_seen'] > before['last_seen']
    assert row['uuid'] == before['uuid']
    assert row['capabilities'] == {'libvirt': '10.0'}


def test_many_first_reports_at_once_make_one_service():
    with concurrent.futures.ThreadPoolExecutor(10) as pool:
        list(pool.map(report, range(1, 11)))
    assert len(scenes.rows(models.services)) == 1
    assert seen()['report_count'] == 10


def test_lists():
    services.report('b', services.COMPUTE, 's', 1, {})
    services.report('a', services.COMPUTE, 's', 1, {})
    services.report('a', services.CONDUCTOR, 's', 1, {})
    assert [(row['binary'], row['host']) for row in services.list_all()] == [
        (services.COMPUTE, 'a'), (services.COMPUTE, 'b'),
        (services.CONDUCTOR, 'a')]
    assert len(services.list_all(host='a')) == 2
    assert len(services.list_all(binary=services.CONDUCTOR)) == 1


def test_times_are_kept_to_the_microsecond():
    before = base.utcnow()
    report()
    assert before <= seen()['last_seen'] <= base.utcnow()
