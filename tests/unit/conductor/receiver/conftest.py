# SPDX-License-Identifier: Apache-2.0
"""A configuration of the receiver alone."""

from oslo_config import cfg
import pytest

from stillframe.conf import receiver as receiver_conf


@pytest.fixture
def conf():
    """The defaults of [receiver]."""
    made = cfg.ConfigOpts()
    receiver_conf.register(made)
    made([], default_config_files=[])
    return made
