# SPDX-License-Identifier: Apache-2.0
"""The agent knows its version without the package's metadata."""

from importlib import metadata

from stillframe.agent import version


def test_both_say_the_same():
    assert metadata.version('stillframe') == version.VERSION
