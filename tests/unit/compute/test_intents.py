# SPDX-License-Identifier: Apache-2.0
"""Intents outlive the process, and a damaged one harms nobody."""

from stillframe.compute import intents


def intent(operation_id='a', **changes):
    return intents.Intent(
        {'operation_id': operation_id, 'operation': 'create',
         'server_id': 's', 'volume_id': 'v', 'snapshot_id': 'x',
         'new_file': 'f'},
        {'go': True, 'formats': {'v': 'raw'}, 'merged_before': False},
        '2026-01-01T00:00:00.000000').having(**changes)


def test_kept_and_removed(tmp_path):
    kept = intents.Intents(str(tmp_path))
    one = kept.write(intent())
    two = kept.write(intent('b', phase=intents.CHANGING, chain_before=[
        {'path': '/v', 'format': 'raw'}], consistency='crash',
        freeze={'by': None}))
    assert list(intents.Intents(str(tmp_path)).all()) == [one, two]
    kept.write(one.having(phase=intents.CHANGING))
    assert [found.phase for found in kept.all()] == ['changing'] * 2
    kept.remove(one)
    assert list(kept.all()) == [two]


def test_damaged_and_half_written(tmp_path):
    kept = intents.Intents(str(tmp_path))
    one = kept.write(intent())
    folder = tmp_path / 'volume_snapshots'
    (folder / 'b.intent.json').write_text('{"version": 1')
    (folder / 'c.intent.json').write_text(
        (folder / 'a.intent.json').read_text().replace(
            '"version": 1', '"version": 2'))
    (folder / 'd.intent.json.tmp').write_text('half')
    kept = intents.Intents(str(tmp_path))
    assert list(kept.all()) == [one]
    assert sorted(path.name for path in folder.iterdir()) == [
        'a.intent.json', 'b.intent.json.damaged', 'c.intent.json.damaged']
