# SPDX-License-Identifier: Apache-2.0
"""Who may touch a freeze."""

from tests.unit.compute import lives

SERVER = lives.SERVER


def test_a_server_has_one_lock_whatever_is_pruned(life):
    with life.ledger.hold(SERVER, 0) as held:
        assert held
        life.ledger.prune()
        with life.ledger.hold(SERVER, 0) as again:
            assert not again


def test_who_asks_about_a_request_does_not_note_it(life):
    assert not life.ledger.knows('req-1')
    assert not life.ledger.known('req-1')
    assert life.ledger.knows('req-1')
    assert life.ledger.known('req-1')


def test_what_an_earlier_life_left_is_known(life, tmp_path, host):
    life.quiescer.quiesce('req-1', SERVER, 60.0, None)
    next_life = lives.Life(tmp_path, host)
    assert next_life.ledger.knows('req-1')
    assert not next_life.ledger.knows('req-2')
