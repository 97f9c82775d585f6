# SPDX-License-Identifier: Apache-2.0
"""A simulated hypervisor with a guest, and a life of a worker over it."""

import pytest

from tests.unit.compute import lives


@pytest.fixture
def host():
    return lives.new_host()


@pytest.fixture
def guest(host):
    return host.guests[lives.SERVER]


@pytest.fixture
def life(tmp_path, host):
    return lives.Life(tmp_path, host)
