# SPDX-License-Identifier: Apache-2.0
"""Whatever comes in whatever order, the promises hold.

A machine makes random histories of one server: requests, outcomes of each
result, told once or more, late or never, deadlines, reaps, resets, reports
of the inventory from two hosts. After every step it looks at what a user
would see.
"""

import functools
import itertools
import shutil
import tempfile

from hypothesis import HealthCheck
from hypothesis import settings
from hypothesis import stateful
from hypothesis import strategies as st

from stillframe import exceptions
from stillframe.conf import CONF
from stillframe.db import base
from stillframe.db import migration
from stillframe.db import models
from stillframe.db import outcomes
from stillframe.db import reaping
from stillframe.db import servers
from stillframe.db import transitions
from stillframe.states import servers as states
from tests.unit.db import scenes

HOSTS = ('here', 'there')
# Mostly good: what follows a success is of more kinds.
RESULTS = st.sampled_from([states.Result.SUCCESS.value] * 3
                          + [result.value for result in states.Result])
# Mostly running: nothing else can be quiesced.
POWERS = st.sampled_from([states.POWER_RUNNING] * 8
                         + sorted(states.POWER_STATES))
# Which of the things that could be told or asked, counted from the newest.
PICK = st.sampled_from([0, 0, 0, 1, 1, 2, 3])


def pick_of(things, pick):
    """The thing that a number picks; the oldest when there are fewer."""
    return things[max(-1 - pick, -len(things))]


def configure(folder):
    """Have the database layer use a file in a folder."""
    base.configure(CONF)
    CONF.set_override('connection', f'sqlite:///{folder}/db', 'database')


@functools.cache
def _migrated():
    """The bytes of a database with the tables in it."""
    with tempfile.TemporaryDirectory() as folder:
        configure(folder)
        migration.upgrade()
        base.dispose()
        with open(f'{folder}/db', 'rb') as file:
            return file.read()


class History(stateful.RuleBasedStateMachine):
    """The life of one server."""

    def __init__(self):
        super().__init__()
        self._folder = tempfile.mkdtemp(prefix='sf-history-')
        with open(f'{self._folder}/db', 'wb') as file:
            file.write(_migrated())
        configure(self._folder)
        scenes.report(scenes.server())
        # What workers were asked, and have told: to be told again.
        self.asked = []
        self.told = []
        self.freezes = []
        self.ended = set()
        self.ids = itertools.count()

    def teardown(self):
        base.dispose()
        CONF.clear_override('connection', 'database')
        shutil.rmtree(self._folder)

    def _row(self):
        return servers.get(scenes.WEB, deleted=True)

    # --- what users and administrators do -----------------------------------

    @stateful.rule(request=st.sampled_from(sorted(states.TRANSITIONS)))
    def ask(self, request):
        row = self._row()
        try:
            request_id = scenes.begin(request)
        except exceptions.StillframeError:
            assert row['deleted'] or not states.can(
                request, row['vm_state'], row['task_state'])
            return
        assert states.can(request, row['vm_state'], row['task_state'])
        freeze_id = row['freeze_id']
        if request == 'quiesce':
            freeze_id = request_id
            self.freezes.append(freeze_id)
        self.asked.append((request, request_id, freeze_id, None))

    @stateful.rule(request=st.sampled_from(sorted(states.TRANSITIONS)))
    def ask_and_succeed(self, request):
        self.ask(request)
        self.end(0, 'success', True, HOSTS[0])

    @stateful.rule(request=st.sampled_from(sorted(states.TRANSITIONS)),
                   result=RESULTS, events=st.lists(st.sampled_from(
                       ['end', 'freeze ends', 'freeze ends', 'old one ends',
                        'not sent', 'reap', 'reset', 'gone', 'ask']),
                       min_size=1, max_size=4))
    def ask_while_much_happens(self, request, result, events):
        """What is about the newest request, close together."""
        self._much_happens(request, result, events)

    @stateful.rule(result=RESULTS, events=st.lists(st.sampled_from(
        ['end', 'end', 'freeze ends', 'not sent', 'reap', 'reset']),
        min_size=2, max_size=3))
    def quiesce_while_much_happens(self, result, events):
        """The same from a state in which it is taken."""
        self._settle()
        self._much_happens('quiesce', result, events)

    @stateful.rule(result=RESULTS, events=st.lists(st.sampled_from(
        ['end', 'freeze ends', 'not sent', 'reap', 'reset']),
        min_size=2, max_size=3))
    def unquiesce_while_much_happens(self, result, events):
        """The same of what is quiesced."""
        self._settle()
        self._much_happens('quiesce', 'success', ['end'])
        self._much_happens('unquiesce', result, events)

    def _settle(self):
        scenes.report(scenes.server())
        transitions.reset_now(scenes.ctxt(), scenes.WEB, states.ACTIVE, '')

    def _much_happens(self, request, result, events):
        self.ask(request)
        for event in events:
            if event == 'end':
                self.end(0, result, True, HOSTS[0])
            elif event == 'old one ends':
                self.end(1, 'success', True, HOSTS[0])
            elif event == 'freeze ends':
                self.freeze_ends(0, 'success', HOSTS[0], 'deadline',
                                 'freeze_ended')
            elif event == 'not sent':
                self.cannot_send(0)
            elif event == 'reap':
                self.reap_requests()
            elif event == 'reset':
                self.reset('active', True, False)
            elif event == 'gone':
                self.report_gone(HOSTS[0], True)
            else:
                self.ask(request)

    @stateful.rule(pick=PICK)
    def cannot_send(self, pick):
        if self.asked:
            _kind, request_id, *_ = pick_of(self.asked, pick)
            transitions.revert(scenes.WEB, request_id, 'not sent')

    @stateful.rule(state=st.sampled_from(sorted(states.RESET_TARGETS)),
                   thaw=st.booleans(), lost=st.booleans())
    def reset(self, state, thaw, lost):
        if self._row()['deleted']:
            return
        who = scenes.ctxt()
        if thaw:
            before = transitions.begin_reset(who, scenes.WEB)
            self.asked.append(('reset', who.request_id,
                               before['freeze_id'], state))
        if lost or not thaw:
            transitions.reset_now(who, scenes.WEB, state, 'reset')

    # --- what workers tell --------------------------------------------------

    @stateful.rule(pick=PICK, result=RESULTS, verified=st.booleans(),
                   host=st.sampled_from(HOSTS))
    def end(self, pick, result, verified, host):
        if not self.asked:
            return
        kind, request_id, freeze_id, state = pick_of(self.asked, pick)
        if kind == 'quiesce' and result in ('success', 'cannot'):
            verified = None
        told = scenes.outcome(kind, request_id, result, freeze_id=freeze_id,
                              verified_thawed=verified, state=state)
        told['freeze_id'] = freeze_id
        self._tell(host, told)

    @stateful.rule(pick=PICK, result=st.sampled_from(
        ['success', 'failed', 'lost']), host=st.sampled_from(HOSTS),
        reason=st.sampled_from(['deadline', 'stopped', 'rebooted', 'lost']),
        kind=st.sampled_from(['freeze_ended', 'thawed']))
    def freeze_ends(self, pick, result, host, reason, kind):
        if self.freezes:
            self._tell(host, scenes.outcome(
                kind, f'req-system-{next(self.ids)}', result,
                freeze_id=pick_of(self.freezes, pick),
                reason=reason, verified_thawed=result != 'failed'))

    @stateful.rule(pick=PICK)
    def tell_again(self, pick):
        if self.told:
            host, told = pick_of(self.told, pick)
            before = self._row()
            quiesced = scenes.state() == (states.QUIESCED, None)
            assert outcomes.apply(host, told) != 'unknown'
            if told['kind'] == 'quiesce' and not quiesced:
                # No repetition freezes a server in our eyes.
                assert self._row()['vm_state'] == before['vm_state']

    def _tell(self, host, told):
        self.told.append((host, told))
        row = self._row()
        verdict = outcomes.apply(host, told)
        froze = told['kind'] == 'quiesce' and told['result'] == 'success'
        if froze and row['task_request_id'] != told['request_id']:
            assert verdict in ('stale', 'duplicate')
        if not froze:
            assert verdict != 'stale'

    @stateful.rule(host=st.sampled_from(HOSTS), power=POWERS)
    def report(self, host, power):
        quiesced = scenes.report(scenes.server(power_state=power),
                                 host=host)
        row = self._row()
        shown = row['vm_state'] == states.QUIESCED and row['host'] == host
        assert quiesced == ({scenes.WEB: row['freeze_id']} if shown else {})

    @stateful.rule(host=st.sampled_from(HOSTS), back=st.booleans())
    def report_gone(self, host, back):
        scenes.report(host=host)
        if back:
            scenes.report(scenes.server(), host=host)

    # --- what the conductor does --------------------------------------------

    @stateful.rule()
    def reap_requests(self):
        for row in reaping.in_transition():
            assert reaping.give_up(row['uuid'], row['task_request_id'],
                                   row['host'], 'given up')

    @stateful.rule()
    def reap_freezes(self):
        for row in reaping.standing_freezes():
            reaping.end_unreported(
                row['uuid'], row['freeze_id'],
                f'req-system-{next(self.ids)}', 'over')

    # --- what must hold -----------------------------------------------------

    @stateful.invariant()
    def a_task_has_its_request(self):
        row = self._row()
        held = [row[name] is not None for name in (
            'task_state', 'task_request_id', 'task_action',
            'task_started_at')]
        assert all(held) or not any(held)

    @stateful.invariant()
    def states_are_known(self):
        row = self._row()
        assert row['vm_state'] in states.VM_STATES
        assert (row['vm_state'] == states.DELETED) is row['deleted']

    @stateful.invariant()
    def quiesced_is_true(self):
        row = self._row()
        if row['vm_state'] == states.QUIESCED and row['task_state'] is None:
            freeze = scenes.freeze(row['freeze_id'])
            assert freeze['frozen_at'] is not None
            assert freeze['ended_at'] is None

    @stateful.invariant()
    def only_what_runs_is_unfinished(self):
        running = self._row()['task_request_id']
        unfinished = [row['request_id'] for row in
                      scenes.rows(models.actions)
                      if row['finish_time'] is None]
        assert unfinished == ([] if running is None else [running])
        assert all((row['finish_time'] is None) is (row['result'] is None)
                   for row in scenes.rows(models.action_events))
        open_events = [row for row in scenes.rows(models.action_events)
                       if row['finish_time'] is None]
        assert len(open_events) <= len(unfinished)

    @stateful.invariant()
    def an_end_has_a_reason(self):
        for row in scenes.rows(models.freezes):
            assert (row['ended_at'] is None) is (row['end_reason'] is None)


History.TestCase.settings = settings(
    max_examples=50, stateful_step_count=20, deadline=None,
    derandomize=True, print_blob=False,
    suppress_health_check=list(HealthCheck))
TestHistory = History.TestCase
