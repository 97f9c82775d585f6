# SPDX-License-Identifier: Apache-2.0
"""Microversions of the bare-metal dialect out of headers."""

import pytest

from stillframe.api import baremetal_versions as versions


@pytest.mark.parametrize(('header', 'legacy', 'minor'), [
    (None, None, 1),
    ('baremetal 1.90', None, 90),
    ('baremetal latest', None, 116),
    ('baremetal LATEST', None, 116),
    (None, '1.9', 9),
    (None, ' latest ', 116),
    ('baremetal 1.1', '1.9', 1),
    ('compute 2.1', '1.9', 9),
    ('compute 2.1', None, 1),
    ('compute 2.1, baremetal 1.4', None, 4),
    ('baremetal 1.116', None, 116),
])
def test_requested(header, legacy, minor):
    assert versions.requested(header, legacy) == minor


@pytest.mark.parametrize('word', [
    '1.0', '1.117', '2.1', '0.1', '1.999999', '11.1'])
def test_out_of_range(word):
    with pytest.raises(versions.NotAcceptable) as caught:
        versions.requested(None, word)
    assert caught.value.headers == {
        versions.MIN_HEADER: '1.1', versions.MAX_HEADER: '1.116'}
    assert word in str(caught.value)


@pytest.mark.parametrize('word', [
    '', '1', '1.', '.1', '1.1.1', 'v1.1', '1.x', '-1.1', '1.1 1.2',
    '1.9999999', '１.1'])
def test_malformed(word):
    with pytest.raises(versions.Malformed) as caught:
        versions.requested(f'baremetal {word}', None)
    assert not hasattr(caught.value, 'headers')


def test_require():
    versions.require(116, versions.SNAPSHOT, 'The verb snapshot')
    with pytest.raises(versions.TooOld) as caught:
        versions.require(115, versions.SNAPSHOT, 'The verb snapshot')
    assert str(caught.value).startswith('Request not acceptable. The verb')
