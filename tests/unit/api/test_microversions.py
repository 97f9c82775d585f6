# SPDX-License-Identifier: Apache-2.0
"""Parsing the headers that ask for a microversion."""

import pytest

from stillframe import exceptions
from stillframe.api import microversions as mv


@pytest.mark.parametrize(('header', 'legacy', 'minor'), [
    (None, None, mv.MIN),
    ('compute 2.1', None, 1),
    ('compute 2.89', None, 89),
    ('compute latest', None, mv.MAX),
    ('COMPUTE 2.53', None, 53),
    ('  compute   2.53  ', None, 53),
    ('volume 3.1, compute 2.53', None, 53),
    ('compute 2.10, compute 2.20', None, 20),
    ('volume 3.1', None, mv.MIN),
    ('volume 3.1', '2.7', 7),
    ('', '2.7', 7),
    (',,', None, mv.MIN),
    (None, '2.7', 7),
    (None, ' 2.7 ', 7),
    (None, 'latest', mv.MAX),
    ('compute 2.53', '2.7', 53),
    ('compute 2.53', 'nonsense', 53),
])
def test_understood(header, legacy, minor):
    assert mv.requested(header, legacy) == minor


@pytest.mark.parametrize('version', [
    '', '2', '2.', '.1', '2.x', '2.01', '02.1', '2.1.1', '2,1', '-2.1',
    '2.-1', '2.1 2.2', 'Latest', '２.１', '2.1\n3', '2.1234567'])
def test_malformed(version):
    with pytest.raises(exceptions.BadRequest) as caught:
        mv.requested(f'compute {version}', None)
    assert 'MajorNum.MinorNum' in caught.value.message


@pytest.mark.parametrize('version', [
    '2.0', f'2.{mv.MAX + 1}', '1.1', '3.1', '2.999999'])
def test_out_of_range(version):
    for headers in ((f'compute {version}', None), (None, version)):
        with pytest.raises(mv.NotAcceptable) as caught:
            mv.requested(*headers)
        assert caught.value.http_status == 406
        assert f'maximum is 2.{mv.MAX}' in caught.value.message


def test_the_steps_are_in_range_and_in_order():
    steps = [value for name, value in vars(mv).items()
             if name.isupper() and isinstance(value, int)
             and name not in ('MIN', 'MAX')]
    assert steps == sorted(steps)
    assert steps[0] > mv.MIN
    assert steps[-1] <= mv.MAX
