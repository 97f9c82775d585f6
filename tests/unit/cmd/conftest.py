# SPDX-License-Identifier: Apache-2.0
"""The tests of commands use the database of the database's tests."""

from tests.unit.db.conftest import database  # noqa: F401
from tests.unit.db.conftest import migrated  # noqa: F401
