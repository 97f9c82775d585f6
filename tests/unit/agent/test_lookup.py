# SPDX-License-Identifier: Apache-2.0
"""Finding out which node this is, by an API in all its moods."""

import random
import ssl

import pytest

from stillframe.agent import api
from stillframe.agent import certificate
from stillframe.agent import lookup
from tests.unit.agent import bare_metal_double as double

MACS = ['02:00:00:00:00:01', '02:00:00:00:00:02']


@pytest.fixture
def bare_metal():
    with double.BareMetal() as one:
        yield one


class Clock:
    """Waits that take no time, and are written down."""

    def __init__(self, ends_after=None):
        self.now = 0.0
        self.waits = []
        self.ends_after = ends_after

    def wait(self, seconds):
        self.waits.append(seconds)
        self.now += seconds
        return len(self.waits) != self.ends_after


@pytest.fixture
def clock():
    return Clock()


def look(bare_metal, clock, timeout=600.0, interval=1.0, **more):
    client = api.Api((bare_metal.url,), 20.0)
    return lookup.Lookup(client, clock.wait, timeout, interval,
                         **{'macs': lambda: MACS, **more},
                         clock=lambda: clock.now).run()


def test_found_at_once(bare_metal, clock):
    found = look(bare_metal, clock)
    assert found == lookup.Identity(
        (1, 116), found.node, 300.0, double.TOKEN)
    assert found.uuid == double.NODE
    assert not found.token_taken
    assert bare_metal.asked == [{'addresses': ','.join(MACS)}]
    assert bare_metal.versions['lookup'] == ['1.62']
    assert clock.waits == []
    assert double.TOKEN not in repr(found)


def test_an_old_api_is_asked_as_it_can_be(bare_metal, clock):
    bare_metal.root = double.root('1.40')
    bare_metal.lookups = [double.found(token=None)]
    found = look(bare_metal, clock)
    assert (found.version, found.token) == ((1, 40), None)
    assert bare_metal.versions['lookup'] == ['1.40']


def test_a_token_that_was_given_out_before(bare_metal, clock):
    bare_metal.lookups = [double.found(token='******')]
    found = look(bare_metal, clock)
    assert (found.token, found.token_taken) == (None, True)


@pytest.mark.parametrize('token', ['short', 17, ''])
def test_what_is_no_token(bare_metal, clock, token):
    bare_metal.lookups = [double.found(token=token)]
    found = look(bare_metal, clock)
    assert (found.token, found.token_taken) == (None, False)


def test_unknown_at_first(bare_metal, clock, monkeypatch):
    monkeypatch.setattr(random, 'uniform', lambda low, high: high)
    bare_metal.lookups = [double.error(404, 'Node not found.')] * 8 + [
        double.found()]
    assert look(bare_metal, clock).uuid == double.NODE
    assert clock.waits == [2, 4, 8, 16, 32, 60, 60, 60]


def test_pauses_are_random(bare_metal, clock):
    bare_metal.lookups = [double.error(404, 'Node not found.')]
    with pytest.raises(lookup.NotFound):
        look(bare_metal, clock, timeout=3000.0)
    late = clock.waits[8:-1]
    assert min(late) >= 1
    assert max(late) <= 60
    assert len(set(late)) == len(late) > 30


def test_a_locked_node_is_asked_less_and_less(bare_metal, clock):
    locked = double.error(409, 'Node is locked.')
    bare_metal.lookups = [locked] * 4 + [double.found()]
    look(bare_metal, clock)
    assert clock.waits == [5, 10, 30, 30]


def test_never_found(bare_metal, clock):
    bare_metal.lookups = [double.error(404, 'Node X was not found.')]
    with pytest.raises(lookup.NotFound, match=(
            r'for 100 s, lastly with: HTTP 404: Node X was not found')):
        look(bare_metal, clock, timeout=100.0)
    assert clock.now == pytest.approx(100.0)


def test_told_to_end_meanwhile(bare_metal):
    bare_metal.lookups = [double.error(404, 'no')]
    with pytest.raises(lookup.Ended):
        look(bare_metal, Clock(ends_after=3))
    assert len(bare_metal.asked) == 3


def test_cards_that_come_later(bare_metal, clock):
    there = []

    def macs():
        there.append(None)
        return MACS if len(there) > 2 else []

    assert look(bare_metal, clock, macs=macs).uuid == double.NODE
    assert len(clock.waits) == 2


@pytest.mark.parametrize('answer, says', [
    (double.Answer(body='<html>'), 'names no node'),
    (double.Answer(body=[]), 'names no node'),
    (double.Answer(body={'node': {}, 'config': {}}), 'names no node'),
    (double.found(timeout=0), 'names no node'),
    (double.found(timeout='x'), 'names no node'),
    (double.Answer(500, '<p>It   broke</p>'), 'HTTP 500: <p>It broke</p>'),
    (double.Answer(503, {'error': {'message': 'x'}}), 'HTTP 503'),
    (double.Answer(404, {'error_message': {'faultstring': 'As a dict'}}),
     'HTTP 404: As a dict'),
    (double.Answer(302, '', {'Location': 'http://elsewhere/'}), 'HTTP 302'),
    (double.Answer(500, 'x' * 9000), 'x' * 500 + '$'),
])
def test_answers_that_make_no_sense(bare_metal, clock, answer, says):
    bare_metal.lookups = [answer]
    with pytest.raises(lookup.NotFound, match=says):
        look(bare_metal, clock, timeout=1.0)


@pytest.mark.parametrize('root', [
    double.Answer(404), double.Answer(body='[]'), double.root('new')])
def test_what_is_no_bare_metal_api(bare_metal, clock, root):
    bare_metal.root = root
    with pytest.raises(lookup.NotFound, match='discovery'):
        look(bare_metal, clock, timeout=1.0)


def test_the_next_url_when_one_does_not_answer(bare_metal):
    client = api.Api(('http://127.0.0.1:1', bare_metal.url), 20.0)
    assert client.version() == (1, 116)
    assert client.local_address == '127.0.0.1'
    gone = api.Api(('http://127.0.0.1:1', 'http://127.0.0.1:2'), 20.0)
    with pytest.raises(api.Unreachable, match=r':1: .*refused.*; .*:2: '):
        gone.version()


def test_a_path_before_ours(bare_metal, clock):
    client = api.Api((bare_metal.url + '/baremetal',), 20.0)
    with pytest.raises(api.Refused, match='404'):
        client.lookup((1, 90), MACS)
    assert bare_metal.wrong == [
        'GET /baremetal/v1/lookup?addresses=' + ','.join(MACS)]
    bare_metal.wrong.clear()


def test_the_clock_of_the_api(bare_metal):
    bare_metal.root.headers['Date'] = 'Thu, 01 Jan 2099 00:00:00 GMT'
    client = api.Api((bare_metal.url,), 20.0)
    client.version()
    assert client.now() == pytest.approx(4070908800, abs=60)


def test_tls_to_the_api(tmp_path):
    ours = certificate.make('127.0.0.1')
    other = certificate.make('127.0.0.1')
    both = tmp_path / 'both.pem'
    both.write_text(ours.pem + ours.key_pem)
    (tmp_path / 'ours.pem').write_text(ours.pem)
    (tmp_path / 'other.pem').write_text(other.pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(both)
    with double.BareMetal(context) as bare_metal:
        urls = (bare_metal.url,)
        assert api.Api(urls, 20.0, str(tmp_path / 'ours.pem')).version()
        for wrong in (str(tmp_path / 'other.pem'), None):
            with pytest.raises(api.Unreachable, match='certificate'):
                api.Api(urls, 20.0, wrong).version()
        with pytest.raises(OSError, match='No such file'):
            api.Api(urls, 20.0, '/nowhere')
