# SPDX-License-Identifier: Apache-2.0
"""What cannot be read is kept for a while, and no longer."""

import os
import time

from stillframe.compute import files

MONTH = 30 * 86400


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_what_was_set_aside_goes_after_a_month(tmp_path):
    for name in ('old', 'new'):
        path = tmp_path / f'{name}.intent.json'
        path.write_text('{')
        # However long it had been there before.
        os.utime(path, (0, 0))
        files.set_aside(path)
    files.sweep(tmp_path, '.intent.json')
    assert names(tmp_path) == ['new.intent.json.damaged',
                               'old.intent.json.damaged']
    moment = time.time() - MONTH - 60
    os.utime(tmp_path / 'old.intent.json.damaged', (moment, moment))
    # That is another writer's.
    files.sweep(tmp_path, '.outcome.json')
    assert len(names(tmp_path)) == 2
    files.sweep(tmp_path, '.intent.json')
    assert names(tmp_path) == ['new.intent.json.damaged']
