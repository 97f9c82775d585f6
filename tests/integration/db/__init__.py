# SPDX-License-Identifier: Apache-2.0
"""The tests of tests/unit/db, on real MariaDB and PostgreSQL."""
