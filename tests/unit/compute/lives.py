# SPDX-License-Identifier: Apache-2.0
"""Lives of a worker over one state path and one simulated hypervisor."""

import json

from oslo_config import cfg

from stillframe.compute import ended
from stillframe.compute import journal
from stillframe.compute import ledger
from stillframe.compute import outbox
from stillframe.compute import quiescing
from stillframe.compute import thawing
from stillframe.compute import unquiescing
from stillframe.compute import watching
from stillframe.conf import compute
from stillframe.conf import default
from stillframe.conf import quiesce
from tests.unit.compute import hypervisor

SERVER = 'b4b9a5a8-5c5e-4d0a-9a57-1c6c1d7a2f10'


def configuration(**settings):
    """A configuration with times that suit a test of milliseconds."""
    conf = cfg.ConfigOpts()
    for module in (default, compute, quiesce):
        module.register(conf)
    conf([])
    settings = {'settle_timeout': 1.0, 'query_timeout': 1.0, **settings}
    for name, value in settings.items():
        conf.set_override(name, value, 'compute')
    return conf


class Alarms:
    """Remembers alarms; a test lets them go off."""

    def __init__(self):
        self.pending = {}

    def set(self, name, server_id, moment, call, *args):
        self.pending[name, server_id] = (moment, call, args)

    def clear(self, server_id):
        for key in [one for one in self.pending if one[1] == server_id]:
            del self.pending[key]

    def go_off(self, name, server_id=SERVER):
        _moment, call, args = self.pending.pop((name, server_id))
        call(server_id, *args)


class Guard:
    """A guard that is alive, and one that is not."""

    def __init__(self):
        self.missing = None

    def ensure(self):
        if self.missing:
            raise self.missing

    def poke(self):
        pass


class Life:
    """One life of a worker; the next is made over the same folder."""

    def __init__(self, state_path, host, **settings):
        self.host = host
        self.conf = configuration(**settings)
        self.alarms = Alarms()
        self.guard = Guard()
        self.journal = journal.Journal(state_path)
        self.journal.sweep_records()
        self.state_path = state_path
        box = outbox.Outbox(state_path, send=None, answered=None)
        self.ledger = ledger.Ledger(
            self.journal, box, ended.Memory(state_path), self.guard)
        self.thawer = thawing.Thawer(
            self.conf, host, self.ledger, self.alarms)
        self.unquiescer = unquiescing.Unquiescer(
            host, self.ledger, self.thawer)
        self.watch = watching.Watch(
            self.conf, host, self.ledger, self.thawer, self.alarms)
        self.quiescer = quiescing.Quiescer(
            self.conf, host, self.ledger, self.guard, self.thawer,
            self.watch.begin)

    def recover(self):
        """Take up what an earlier life left, as the worker does."""
        for server_id in self.journal.servers():
            try:
                self.ledger.load(self.journal.read(server_id))
            except journal.Unreadable:
                self.watch.recover_unreadable(server_id)
            else:
                self.watch.recover(server_id)
        # As the full pass does for domains that carry a lease.
        for server_id, guest in self.host.guests.items():
            if guest.carried and self.ledger.record(server_id) is None:
                self.watch.check(server_id)

    def outcomes(self):
        """All outcomes that wait to be delivered, in order."""
        return [json.loads(path.read_text()) for path in sorted(
            (self.state_path / 'outbox').glob('*.outcome.json'))]

    def outcome(self, **wanted):
        """The one outcome with these values."""
        found = [one for one in self.outcomes() if all(
            one[key] == value for key, value in wanted.items())]
        assert len(found) == 1, (wanted, self.outcomes())
        return found[0]

    def quiesce(self, request_id='req-freeze', timeout=60.0,
                server_id=SERVER):
        self.quiescer.quiesce(request_id, server_id, timeout, None)
        return self.outcome(request_id=request_id)

    def unquiesce(self, request_id='req-thaw', freeze_id='req-freeze'):
        self.unquiescer.unquiesce(request_id, SERVER, freeze_id)
        return self.outcome(request_id=request_id)


def new_host(filesystems=2):
    """A host with one running guest."""
    host = hypervisor.SimulatedHost()
    host.guests[SERVER] = hypervisor.SimulatedGuest(filesystems)
    return host
