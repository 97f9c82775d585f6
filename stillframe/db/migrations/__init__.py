# SPDX-License-Identifier: Apache-2.0
"""Revisions of the schema, run by alembic."""
