# SPDX-License-Identifier: Apache-2.0
"""Runs the scripts in gabbits/, one file a resource."""

import os
import pathlib
import unittest

from gabbi import handlers
from gabbi import suitemaker
from gabbi import utils
from gabbi.handlers import base
import pytest

from tests.functional import fixtures

FOLDER = pathlib.Path(__file__).parent / 'gabbits'
SCRIPTS = sorted(FOLDER.glob('*.yaml'))


class ForbiddenStrings(base.ResponseHandler):
    """Key ``response_forbidden_strings``: what the body must not have."""

    test_key_suffix = 'forbidden_strings'
    test_key_value: list[str] = []

    def action(self, test, item, value=None):
        """Check one string."""
        test.assertNotIn(item, test.output)


HANDLERS = (*handlers.RESPONSE_HANDLERS, ForbiddenStrings)


@pytest.mark.parametrize('script', SCRIPTS, ids=lambda path: path.stem)
def test_script(script, subtests):
    suite = suitemaker.test_suite_from_dict(
        unittest.TestLoader(), script.stem, utils.load_yaml(yaml_file=script),
        os.fspath(FOLDER), 'api.test', None, fixtures, fixtures.app,
        test_loader_name='gabbi',
        handlers=[handler() for handler in HANDLERS])
    result = unittest.TestResult()
    suite.start(result)
    try:
        for test in suite:
            with subtests.test(msg=test.test_data['name']):
                seen = unittest.TestResult()
                test.run(seen)
                for _, trouble in (*seen.failures, *seen.errors):
                    pytest.fail(trouble, pytrace=False)
                assert seen.testsRun == 1
                assert not seen.skipped
    finally:
        suite.stop()
