# SPDX-License-Identifier: Apache-2.0
"""The time to a freeze is parted into ours and the agent's."""

import datetime

import pytest

from tools.bench import freeze

_FROZEN = datetime.datetime(2026, 1, 31, 12, 0, 0, 150_000)
_SENT = datetime.datetime(2026, 1, 31, 12, 0, 0,
                          tzinfo=datetime.UTC).timestamp()


def test_the_agent_call_is_left_out():
    ours, calls = freeze.split(
        {'req-1': _SENT},
        {'req-1': (_FROZEN, '1 file systems frozen; freeze call 0.100 s; '
                            'automatic thaw after 60 s')})
    assert ours == [pytest.approx(0.05, abs=1e-4)]
    assert calls == [0.1]


def test_a_freeze_that_was_not_reported_is_an_error():
    with pytest.raises(KeyError):
        freeze.split({'req-1': _SENT}, {})


@pytest.mark.parametrize('details', [None, '1 file systems frozen'])
def test_a_report_without_the_call_is_an_error(details):
    with pytest.raises(ValueError):
        freeze.split({'req-1': _SENT}, {'req-1': (_FROZEN, details)})
