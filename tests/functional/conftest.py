# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the functional tests that are written in Python."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

from tests.functional import environment


@pytest.fixture
def api():
    """An API of its own for each test, with the strategy noauth."""
    with environment.environment() as made:
        yield made


@pytest.fixture(scope='module')
def shared_api():
    """An API for all tests of a module; they leave the servers alone."""
    with environment.environment() as made:
        yield made


@pytest.fixture
def command(served, tmp_path):
    """Runs ``openstack``; gives what it says as JSON, or None."""
    configuration = tmp_path / 'clouds.json'
    configuration.write_text(json.dumps(served.configuration()))

    def run(*words, form=('-f', 'json')):
        done = subprocess.run(
            [pathlib.Path(sys.executable).parent / 'openstack',
             '--os-cloud', 'test', *words, *form],
            capture_output=True, text=True, timeout=120, check=False,
            env={'PATH': os.defpath, 'HOME': str(tmp_path),
                 'PYTHONWARNINGS': 'ignore',
                 'OS_CLIENT_CONFIG_FILE': str(configuration)})
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout) if form else None

    return run
