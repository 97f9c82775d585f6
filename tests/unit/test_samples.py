# SPDX-License-Identifier: Apache-2.0
"""The sample files are what the code says; "make samples" makes them so."""

import pytest

from tools import samples


@pytest.fixture(scope='module')
def written(tmp_path_factory):
    """A folder with the samples as they would be written now."""
    folder = tmp_path_factory.mktemp('samples')
    samples.write(folder)
    return folder


@pytest.mark.parametrize('name', [sample for sample, *_ in samples.SAMPLES])
def test_sample_is_up_to_date(written, name):
    fresh = (written / name).read_text()
    kept = (samples.FOLDER / name).read_text()
    assert kept == fresh, f'{name} is old: run "make samples"'


def test_all_groups_are_in_it(written):
    text = (written / 'stillframe.conf.sample').read_text()
    for group in ('api', 'quiesce', 'database', 'keystone_authtoken',
                  'oslo_messaging_rabbit', 'healthcheck'):
        assert f'\n[{group}]\n' in text
