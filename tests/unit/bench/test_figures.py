# SPDX-License-Identifier: Apache-2.0
"""Samples become figures, figures become a table and JSON."""

import json

import pytest

from tools.bench import figures
from tools.bench import report


def test_percentile_is_the_smallest_sample_that_suffices():
    samples = [float(one) for one in range(1, 201)]
    assert figures.percentile(samples, 99) == 198.0
    assert figures.percentile(samples, 100) == 200.0
    assert figures.percentile(samples, 0.1) == 1.0
    assert figures.percentile(samples[:100], 99) == 99.0
    # Of less than a hundred samples it is the worst one.
    assert figures.percentile([3.0, 1.0, 2.0], 99) == 3.0


def test_no_samples_are_no_figure():
    with pytest.raises(ValueError):
        figures.percentile([], 99)
    with pytest.raises(ValueError):
        figures.of_samples('none', [], 'ms', '')


@pytest.mark.parametrize(('relation', 'value', 'verdict'), [
    ('under', 24.9, 'met'),
    ('under', 25.0, 'MISSED'),
    ('at most', 25.0, 'met'),
    ('at most', 25.1, 'MISSED'),
    ('at least', 25.0, 'met'),
    ('at least', 24.9, 'MISSED'),
])
def test_an_aim_is_met_or_missed(relation, value, verdict):
    one = figures.Figure('x', value, 's', 1, None, '',
                         figures.Aim(relation, 25))
    assert one.verdict == verdict


def test_without_an_aim_there_is_no_verdict():
    assert figures.Figure('x', 1.0, 's', 1, None, '').verdict == ''


def test_median_and_p99_of_samples():
    one = figures.of_samples('x', [1.0, 2.0, 9.0], 'ms', 'nothing')
    assert (one.value, one.p99, one.n) == (2.0, 9.0, 3)


def test_bench_json_has_one_object_a_figure(tmp_path):
    path = tmp_path / 'bench.json'
    report.write([
        figures.of_samples('a', [1.0], 'ms', 'b', figures.Aim('under', 2)),
        figures.Figure('c', 2.0, 'MB', 1, None, 'd')], path)
    assert json.loads(path.read_text()) == [
        {'name': 'a', 'value': 1.0, 'unit': 'ms', 'n': 1, 'p99': 1.0,
         'compared_with': 'b'},
        {'name': 'c', 'value': 2.0, 'unit': 'MB', 'n': 1, 'p99': None,
         'compared_with': 'd'}]


def test_the_table_names_what_was_missed():
    text = report.table([
        figures.Figure('good', 1.0, 's', 1, None, 'x',
                       figures.Aim('at most', 2)),
        figures.Figure('bad', 3.0, 's', 1, None, 'y',
                       figures.Aim('at most', 2)),
        figures.Figure('free', 3.0, 's', 1, None, 'z')])
    assert text.endswith('1 of 2 aims met; missed: bad')
    assert max(len(line) for line in text.splitlines()) < 80
