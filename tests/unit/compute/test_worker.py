# SPDX-License-Identifier: Apache-2.0
"""A compute worker that cannot begin."""

import pytest

from stillframe import exceptions
from stillframe.compute import worker
from stillframe.conf import CONF


@pytest.mark.parametrize('name', ['file', 'file/below', 'folder'])
def test_a_state_path_that_cannot_be_written_to(tmp_path, name):
    """Even root writes to none of these."""
    (tmp_path / 'file').touch()
    (tmp_path / 'folder' / 'worker.lock').mkdir(parents=True)
    CONF.set_override('state_path', str(tmp_path / name))
    try:
        with pytest.raises(exceptions.ConfigError,
                           match='state_path .* cannot be written to'):
            worker.Worker(CONF)
    finally:
        CONF.clear_override('state_path')
