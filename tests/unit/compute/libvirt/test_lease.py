# SPDX-License-Identifier: Apache-2.0
"""The lease that a domain carries."""

import time

import pytest

from stillframe.compute import clock
from stillframe.compute.libvirt import lease


def test_there_and_back():
    one = lease.Lease('req-"1"<&>', clock.wall(), 12.5)
    assert lease.from_xml(lease.to_xml(one)) == one


@pytest.mark.parametrize(('ahead', 'granted', 'left'), [
    (20, 30, 20), (-5, 30, 0), (10_000, 30, 30), (10_000, 90, 60)])
def test_what_remains_is_within_bounds(ahead, granted, left):
    one = lease.Lease('req-1', clock.wall_text(time.time() + ahead), granted)
    assert one.remaining(60.0) == pytest.approx(left, abs=1)


def test_a_deadline_that_is_none_is_past():
    assert lease.Lease('req-1', 'soon', 30.0).remaining(60.0) == 0


@pytest.mark.parametrize('text', [
    '', '<lease/>', '<lease freeze="a" deadline="b" timeout="c"/>',
    '<!DOCTYPE lease []><lease freeze="a" deadline="b" timeout="1"/>',
    '<lease freeze="a" deadline="b" timeout="1"/>' + ' ' * 5000])
def test_what_is_no_lease(text):
    assert lease.from_xml(text) is None
