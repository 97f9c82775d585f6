# SPDX-License-Identifier: Apache-2.0
"""The version of the database's schema, and bringing it up to date."""

import alembic.command
import alembic.config
import alembic.runtime.migration
import alembic.script

from stillframe.db import base


def _config() -> alembic.config.Config:
    config = alembic.config.Config()
    config.set_main_option('script_location', 'stillframe.db:migrations')
    return config


def head() -> str | None:
    """Give the newest revision that this code knows."""
    return alembic.script.ScriptDirectory.from_config(
        _config()).get_current_head()


def version() -> str | None:
    """Give the revision of the database; None when it has no tables yet.

    :raises oslo_db.exception.DBError: the database cannot be read.
    """
    with base.get_engine().connect() as conn:
        return alembic.runtime.migration.MigrationContext.configure(
            conn).get_current_revision()


def upgrade(revision: str = 'head') -> None:
    """Bring the schema up; nothing happens when it is there already.

    MariaDB commits each statement for itself: an upgrade that was cut off
    there may have to be finished by hand. The other two do all or nothing.

    :param revision: as alembic names it.
    :raises alembic.util.CommandError: there is no such revision.
    :raises oslo_db.exception.DBError: the database refused.
    """
    config = _config()
    with base.get_engine().begin() as conn:
        config.attributes['connection'] = conn
        alembic.command.upgrade(config, revision)
