# SPDX-License-Identifier: Apache-2.0
"""What changed on a host, and how it is reported."""

from stillframe import exceptions
from stillframe.compute import inventory
from stillframe.compute import reporter


def a_server(number, **more):
    return {'uuid': f'uuid-{number}', 'name': f'server {number}', **more}


def test_everything_first_then_differences():
    found = inventory.Inventory()
    found.replace([a_server(1), a_server(2)])
    first = found.changes()
    assert first.full
    assert [one['uuid'] for one in first.servers] == ['uuid-1', 'uuid-2']
    found.reported(first)
    assert not found.changes()
    assert found.digest() == first.digest

    found.update('uuid-2', a_server(2, power_state=4))
    found.update('uuid-3', a_server(3))
    found.update('uuid-1', None)
    second = found.changes()
    assert not second.full
    assert [one['uuid'] for one in second.servers] == ['uuid-2', 'uuid-3']
    assert second.gone == ['uuid-1']
    found.reported(second)
    assert found.digest() == second.digest != first.digest


def test_a_change_during_a_report_is_not_lost():
    found = inventory.Inventory()
    found.replace([a_server(1)])
    changes = found.changes()
    found.update('uuid-1', a_server(1, power_state=4))
    found.reported(changes)
    assert found.changes().servers == [a_server(1, power_state=4)]


def test_an_event_during_a_full_pass_is_newer_than_it():
    found = inventory.Inventory()
    found.replace([a_server(1), a_server(2)])
    found.begin_pass()
    found.update('uuid-1', a_server(1, power_state=4))
    found.update('uuid-2', None)
    found.replace([a_server(1), a_server(2), a_server(3)])
    assert [one['uuid'] for one in found.changes().servers] == [
        'uuid-3', 'uuid-1']
    assert a_server(1, power_state=4) in found.changes().servers


def test_the_digest_does_not_depend_on_the_order():
    one, two = inventory.Inventory(), inventory.Inventory()
    one.replace([a_server(1), a_server(2)])
    two.replace([a_server(2), a_server(1)])
    assert one.changes().digest == two.changes().digest


class Conductor:
    """Takes reports."""

    def __init__(self):
        self.away = False
        self.resync = False
        self.quiesced = {}
        self.reports = []

    def _take(self, *what):
        if self.away:
            raise exceptions.ServiceUnavailable(service='x', what='y')
        self.reports.append(what)

    def report_service(self, ctxt, host, binary, started_at, report_count,
                       capabilities, servers_digest):
        self._take('service', report_count, servers_digest)
        return {'resync': self.resync}

    def report_servers(self, ctxt, host, servers, gone, full,
                       servers_digest):
        self._take('servers', [one['uuid'] for one in servers], gone, full)
        return {'quiesced': self.quiesced}


def a_reporter(conductor, found, shown=None, interval=1000.0):
    return reporter.Reporter(
        'host', interval, conductor, found, dict,
        lambda quiesced, asked: shown.append(quiesced))


def test_steps_of_a_reporter():
    found, conductor, shown = inventory.Inventory(), Conductor(), []
    one = a_reporter(conductor, found, shown)
    found.replace([a_server(1)])
    conductor.quiesced = {'uuid-1': 'req-1'}
    # A new worker is unknown; it tells everything once, not twice.
    conductor.resync = True
    nothing = found.digest()
    assert one.step() > 900
    assert conductor.reports == [
        ('service', 1, nothing), ('servers', ['uuid-1'], [], True)]
    assert shown == [{'uuid-1': 'req-1'}]
    conductor.reports.clear()
    one.step()
    assert conductor.reports == []
    found.update('uuid-1', None)
    one.step()
    assert conductor.reports == [('servers', [], ['uuid-1'], False)]


def test_nothing_is_said_of_servers_before_somebody_looked():
    # libvirt may break between the connection and the first full pass; an
    # empty full report would mark every server of the host as deleted.
    found, conductor = inventory.Inventory(), Conductor()
    one = a_reporter(conductor, found, [])
    found.begin_pass()
    found.update('uuid-1', a_server(1))
    one.step()
    assert [what[0] for what in conductor.reports] == ['service']
    found.begin_pass()
    found.replace([a_server(1), a_server(2)])
    one.step()
    assert conductor.reports[1] == (
        'servers', ['uuid-1', 'uuid-2'], [], True)


def test_a_conductor_that_is_away_gets_it_later():
    found, conductor = inventory.Inventory(), Conductor()
    one = a_reporter(conductor, found, [], interval=5.0)
    found.replace([a_server(1)])
    conductor.away = True
    assert one.step() == 5.0
    conductor.away = False
    one.step()
    assert conductor.reports[0] == ('servers', ['uuid-1'], [], True)


def test_a_conductor_that_lost_its_picture_gets_all():
    found, conductor = inventory.Inventory(), Conductor()
    one = a_reporter(conductor, found, [], interval=0.0)
    found.replace([a_server(1), a_server(2)])
    one.step()
    conductor.resync = True
    one.step()
    conductor.resync = False
    conductor.reports.clear()
    one.step()
    assert conductor.reports[0] == (
        'servers', ['uuid-1', 'uuid-2'], [], True)
