# SPDX-License-Identifier: Apache-2.0
"""Hints for a disk, as ironic-python-agent understands them."""

import dataclasses

from hypothesis import given
from hypothesis import strategies
from oslo_utils import specs_matcher
import pytest

from stillframe.agent import disks
from stillframe.agent import failures
from stillframe.agent import hints

GIB = 1 << 30

# What oslo.utils does to be heard.
pytestmark = pytest.mark.filterwarnings('ignore::DeprecationWarning')

DISK = disks.Disk(
    '/dev/sda', 60 * GIB, rotational=True,
    serials=('S3Z5NB0K', '36589cfc'), wwns=('0x5000c500a0b1c2d3',),
    wwns_with_extension=('0x5000c500a0b1c2d30000',),
    wwn_vendor_extensions=('0x0000',), models=('ST1000NX 0443',),
    vendors=('Seagate',), tran=('sas',), hctl='1:0:0:0',
    by_paths=('/dev/disk/by-path/pci-0000:01:00.0-scsi-0:0:0:0',))


@pytest.mark.parametrize('wanted', [
    {'size': 60}, {'size': '60'}, {'size': '== 60'}, {'size': '>= 60'},
    {'size': '= 50'}, {'size': '> 59'}, {'size': '< 61'}, {'size': '!= 59'},
    {'size': '<or> 10 <or> 60'}, {'size': '<range-in> [ 10 60 ]'},
    {'size': '<range-in> ( 10 61 )'},
    {'serial': 's3z5nb0k'}, {'serial': ' S3Z5NB0K '},
    {'serial': '36589CFC'}, {'serial': 's== S3Z5NB0K'},
    {'serial': '<or> other <or> S3Z5NB0K'}, {'serial': '<in> Z5N'},
    {'model': 'ST1000NX 0443'}, {'model': 's== st1000nx 0443'},
    {'model': '<or> one two <or> st1000nx 0443'},
    {'model': '<all-in> 0443 st1000'}, {'model': 's!= other'},
    {'vendor': 'seagate'}, {'wwn': '0x5000C500A0B1C2D3'},
    {'wwn_with_extension': '0x5000c500a0b1c2d30000'},
    {'wwn_vendor_extension': '0x0000'}, {'name': '/dev/sda'},
    {'hctl': '1:0:0:0'}, {'tran': 'sas'},
    {'by_path': '/dev/disk/by-path/pci-0000:01:00.0-scsi-0:0:0:0'},
    {'rotational': True}, {'rotational': 'TRUE'}, {'rotational': 'yes'},
    {'rotational': 1}, {'size': 60, 'rotational': True, 'tran': 'sas'},
])
def test_matches(wanted):
    assert hints.compile_(wanted)(DISK)


@pytest.mark.parametrize('wanted', [
    {'size': 59}, {'size': '> 60'}, {'size': '= 61'},
    {'size': '<range-in> ( 60 61 )'}, {'size': '<or> 10 <or> 20'},
    {'serial': 'S3Z5NB0'}, {'serial': '<in> xyz'},
    {'model': '<all-in> 0443 wd'}, {'model': 's!= ST1000NX 0443'},
    {'rotational': False}, {'rotational': 'off'}, {'name': '/dev/sdb'},
    {'size': 60, 'rotational': False}, {'vendor': '>= 3'},
])
def test_does_not_match(wanted):
    assert not hints.compile_(wanted)(DISK)


def test_an_empty_value_matches_nothing():
    bare = dataclasses.replace(DISK, hctl='', serials=())
    assert not hints.compile_({'hctl': 's!= 1:0:0:0'})(bare)
    assert not hints.compile_({'serial': '<in> s'})(bare)


def test_part_of_a_gibibyte():
    odd = dataclasses.replace(DISK, size=60 * GIB + 512)
    assert not hints.compile_({'size': 60})(odd)
    assert hints.compile_({'size': '>= 60'})(odd)


@pytest.mark.parametrize('wanted, says', [
    ({}, 'no hints'), ({'colour': 'red'}, "'colour' is not known"),
    ({'size': 'large'}, "'size' is no number"), ({'size': True}, 'number'),
    ({'size': 'nan'}, 'number'), ({'size': '>= inf'}, 'number'),
    ({'size': '<in> 3'}, 'compared'), ({'size': ''}, 'no value'),
    ({'size': '<range-in> 3 4'}, 'range'), ({'size': None}, 'number'),
    ({'serial': ' '}, 'no value'), ({'serial': 's=='}, 'no value'),
    ({'serial': 5}, 'no text'), ({'vendor': '>= x'}, 'no number'),
    ({'rotational': 'maybe'}, 'neither'),
])
def test_refused(wanted, says):
    with pytest.raises(failures.BadOrder, match=says):
        hints.compile_(wanted)


WORDS = strategies.text('abs015._/', min_size=1, max_size=4)


@given(sign=strategies.sampled_from(
    ['s==', 's!=', 's<', 's<=', 's>', 's>=', '<in>', '<or>', '']),
    value=WORDS, wanted=WORDS)
def test_texts_are_compared_as_by_oslo_utils(sign, value, wanted):
    # There, a value that begins with an operator is none.
    if wanted.startswith(('s=', 's<', 's>', 's!')):
        return
    disk = dataclasses.replace(DISK, vendors=(value,))
    expected = specs_matcher.match(value, f'{sign or "s=="} {wanted}')
    assert hints.compile_({'vendor': f'{sign} {wanted}'})(disk) == expected


@given(sign=strategies.sampled_from(
    ['==', '!=', '<', '<=', '>', '>=', '=', '<or>']),
    size=strategies.integers(1, 100), wanted=strategies.integers(1, 100))
def test_sizes_are_compared_as_by_oslo_utils(sign, size, wanted):
    disk = dataclasses.replace(DISK, size=size * GIB)
    expected = specs_matcher.match(
        str(size) if sign == '<or>' else size, f'{sign} {wanted}')
    assert hints.compile_({'size': f'{sign} {wanted}'})(disk) == expected
