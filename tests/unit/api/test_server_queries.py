# SPDX-License-Identifier: Apache-2.0
"""Names, orders and filters in the query of a list of servers."""

import re
import time

from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st
import pytest

from stillframe.api import paging
from stillframe.api import server_filters
from stillframe.api.schemas import servers as schema
from stillframe.db import servers as db
from stillframe.states import servers as states

# The longest name that a server can have, and the worst to match.
LONGEST = 'a' * 255

# One server's name may take so long; 10,000 then take a few seconds.
BEARABLE = 0.05


@pytest.mark.parametrize('pattern', [
    '', 'web', '^web$', 'web-0[1-9]', r'web\.example\.org', '^(web|app)-1$',
    'a.*b.*c', 'x{2,3}', 'a|b|c|d|e|f|g', '[^a-z]', '[]a]', 'ü', 'a b',
    r'\d+-\w', 'a+?', '(old)', '((a))'])
def test_patterns_that_are_taken(pattern):
    assert schema.name_pattern(pattern) == pattern
    re.compile(pattern)


@pytest.mark.parametrize('pattern', [
    '(a+)+$', '(a|a)*$', '(a*)*', '(a?){50}a{50}', 'a*a*a*$', '.*.*.*x',
    'a?a?a?aaa', '(?:a)', '(?=a)', '(?i)a', r'(a)\1', r'\bweb', r'\Aweb',
    '(', ')', '[', '[a', 'a**', 'a{3,1}', 'a{256}', 'a{1,999}', '*', '+a',
    '^*', '$+', 'a{', 'a}', '\\', '(a|b)(a|b)(a|b)(a|b)(a|b)', 'a' * 256,
    'a\0b', '[[:alpha:]]', 'a|*', '\\ü', '\\\n', 'a*+', '[z-a]', '[a\\d]'])
def test_patterns_that_are_refused(pattern):
    with pytest.raises(ValueError):
        schema.name_pattern(pattern)


PIECES = st.sampled_from([
    'a', 'b', '.', '[ab]', '[^b]', r'\w', 'a*', 'a+', 'a?', '.*', '.+?',
    '(a|a)', '(', ')', '|', '^', '$', '(a*)', '(a|a)*', 'a{2,9}', '\\.'])


@settings(deadline=None, max_examples=300)
@given(st.lists(PIECES, max_size=30).map(''.join))
def test_whatever_is_taken_ends_soon(pattern):
    try:
        schema.name_pattern(pattern)
    except ValueError:
        return
    compiled = re.compile(pattern)
    began = time.thread_time()
    compiled.search(LONGEST)
    compiled.search(LONGEST[:-1] + 'x')
    assert time.thread_time() - began < 10 * BEARABLE


@pytest.mark.parametrize('pattern', [
    'a*a*x', '.*.*x', '(a|a)(a|a)(a|a)(a|a).*.*x', 'a+b*x$', '.{1,255}.*x'])
def test_worst_patterns(pattern):
    schema.name_pattern(pattern)
    began = time.thread_time()
    re.search(pattern, LONGEST)
    assert time.thread_time() - began < 10 * BEARABLE


@pytest.mark.parametrize(('query', 'order'), [
    ({}, [('created_at', 'desc')]),
    ({'sort_dir': ['asc']}, [('created_at', 'asc')]),
    ({'sort_key': ['display_name']}, [('name', 'desc')]),
    ({'sort_key': ['host', 'uuid'], 'sort_dir': ['asc']},
     [('host', 'asc'), ('uuid', 'asc')]),
    ({'sort_key': ['host', 'uuid'], 'sort_dir': ['asc', 'desc']},
     [('host', 'asc'), ('uuid', 'desc')]),
    ({'sort_key': ['key_name', 'uuid'], 'sort_dir': ['asc', 'desc']},
     [('uuid', 'desc')]),
    ({'sort_key': ['key_name'], 'sort_dir': ['asc']},
     [('created_at', 'asc')]),
    ({'sort_key': ['display_name', 'hostname']}, [('name', 'desc')]),
])
def test_order(query, order):
    assert paging.order(query) == order


def test_sort_keys_are_columns():
    assert {key for key in schema.SORT_KEYS.values()
            if key is not None} <= db.SORT_KEYS


@pytest.mark.parametrize(('query', 'limit'), [
    ({}, 1000), ({'limit': [5]}, 5), ({'limit': [0]}, 0),
    ({'limit': [5000]}, 1000), ({'limit': [5, 7]}, 7)])
def test_limit(query, limit):
    assert paging.limit(query, 1000) == limit


@pytest.mark.parametrize(('query', 'rows'), [
    ({}, [0, 1, 2]), ({'limit': [2]}, [0, 1]), ({'offset': [1]}, [1, 2]),
    ({'limit': [1], 'offset': [1]}, [1]), ({'limit': [0]}, [0, 1, 2]),
    ({'offset': [9]}, [])])
def test_by_offset(query, rows):
    assert list(paging.by_offset(range(3), query, 3)) == rows


def test_statuses_elsewhere_are_none_of_ours():
    for word in server_filters._ELSEWHERE:
        assert states.vm_state_of_status(word) is None
