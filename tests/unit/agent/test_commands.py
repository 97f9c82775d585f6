# SPDX-License-Identifier: Apache-2.0
"""One command at a time, results kept and dropped."""

import threading

import pytest

from stillframe.agent import command_errors
from stillframe.agent import commands


class Bench:
    """Commands to try with."""

    def __init__(self):
        self.go = threading.Event()
        self.ended = threading.Event()
        self.stopped = threading.Event()
        self.table = {'try': {
            'add': commands.Command(lambda a, b: a + b),
            'fail': commands.Command(self.fail),
            'refuse': commands.Command(self.refuse),
            'long': commands.Command(self.long, background=True,
                                     check=self.check,
                                     stop=self.stop),
            'deaf': commands.Command(self.long, background=True),
            'beside': commands.Command(lambda: 'seen', while_busy=True),
        }}
        self.commands = commands.Commands(self.table, self.ended.set)

    def fail(self):
        raise ValueError('it broke')

    def refuse(self):
        raise command_errors.InvalidCommandParamsError('no')

    def check(self, result=None, **more):
        if more:
            raise command_errors.InvalidCommandParamsError(str(more))

    def long(self, result=None):
        assert self.go.wait(60)
        if self.stopped.is_set():
            raise RuntimeError('stopped')
        return result

    def stop(self):
        self.stopped.set()
        self.go.set()


@pytest.fixture
def bench():
    one = Bench()
    yield one
    one.go.set()
    assert one.commands.stop(60)


def test_a_short_command(bench):
    result = bench.commands.execute('try.add', {'a': 1, 'b': 2})
    assert result.serialize() == {
        'id': result.id, 'command_name': 'add',
        'command_status': 'SUCCEEDED', 'command_error': None,
        'command_result': 3}
    assert bench.commands.results() == [result]
    assert bench.commands.result(result.id) is result
    assert not bench.commands.busy


@pytest.mark.parametrize('params, says', [
    ({'a': 1}, "missing 1 required positional argument: 'b'"),
    ({'a': 1, 'b': 2, 'c': 3}, "unexpected keyword argument 'c'")])
def test_wrong_parameters_are_a_failure(bench, params, says):
    told = bench.commands.execute('try.add', params).serialize()
    assert told['command_status'] == 'FAILED'
    assert told['command_result'] is None
    assert says in told['command_error']['details']


def test_a_failure_says_what_it_was(bench):
    told = bench.commands.execute('try.fail', {}).serialize()
    assert told['command_error'] == {
        'type': 'ValueError', 'code': 500,
        'message': 'Command execution failed', 'details': 'it broke'}


@pytest.mark.parametrize('name, params, kind, says', [
    ('add', {}, command_errors.InvalidCommandError, 'of the form'),
    ('try.no', {}, command_errors.InvalidCommandError, 'Unknown command'),
    ('no.add', {}, command_errors.RequestedObjectNotFoundError,
     'Extension with id no'),
    ('try.refuse', {}, command_errors.InvalidCommandParamsError, 'no'),
    ('try.long', {'x': 1}, command_errors.InvalidCommandParamsError, 'x'),
])
def test_what_is_refused_leaves_no_result(bench, name, params, kind, says):
    with pytest.raises(kind, match=says):
        bench.commands.execute(name, params)
    assert bench.commands.results() == []
    assert not bench.commands.busy
    assert not bench.ended.is_set()


def test_one_long_command_at_a_time(bench):
    running = bench.commands.execute('try.long', {'result': [1]})
    assert running.serialize()['command_status'] == 'RUNNING'
    assert bench.commands.busy
    for name in ('try.long', 'try.add'):
        with pytest.raises(command_errors.AgentIsBusy) as caught:
            bench.commands.execute(name, {})
        assert str(caught.value) == 'Agent is busy: executing command long'
        assert caught.value.code == 409
    assert bench.commands.execute('try.beside', {}).is_done
    assert not running.wait(0)
    assert not bench.ended.is_set()
    bench.go.set()
    assert running.wait(60)
    assert bench.ended.wait(60)
    assert running.serialize()['command_result'] == [1]
    assert bench.commands.execute('try.add', {'a': 1, 'b': 1}).is_done


def test_stopping_what_runs(bench):
    running = bench.commands.execute('try.long', {})
    assert bench.commands.stop(60)
    told = running.serialize()
    assert told['command_status'] == 'FAILED'
    assert told['command_error']['details'] == 'stopped'


def test_what_cannot_be_stopped_is_left(bench):
    assert bench.commands.stop(60)      # nothing runs
    bench.commands.execute('try.deaf', {})
    assert not bench.commands.stop(0.01)


def test_old_results_are_dropped_but_never_a_running_one(bench):
    running = bench.commands.execute('try.long', {})
    made = [bench.commands.execute('try.beside', {})
            for _ in range(commands.KEPT + 30)]
    kept = bench.commands.results()
    assert kept == [running, *made[30:]]
    with pytest.raises(command_errors.RequestedObjectNotFoundError,
                       match=made[0].id):
        bench.commands.result(made[0].id)


def test_the_result_of_the_last_long_command_outlives_short_ones(bench):
    running = bench.commands.execute('try.long', {'result': 'x'})
    bench.go.set()
    assert running.wait(60)
    for _ in range(commands.KEPT * 2):
        bench.commands.execute('try.add', {'a': 1, 'b': 2})
    assert bench.commands.result(running.id) is running
