# SPDX-License-Identifier: Apache-2.0
"""Runs the revisions on the connection that stillframe.db.migration gives.

Alembic executes this file; it is not imported by anything of ours.
"""

from alembic import context

from stillframe.db import models

context.configure(
    connection=context.config.attributes['connection'],
    target_metadata=models.metadata,
    # SQLite cannot alter a table in place; later revisions copy it.
    render_as_batch=True)

with context.begin_transaction():
    context.run_migrations()
