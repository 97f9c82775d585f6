# SPDX-License-Identifier: Apache-2.0
"""Tests of the database layer, on SQLite.

tests/integration/db runs the same ones on MariaDB and PostgreSQL.
"""
