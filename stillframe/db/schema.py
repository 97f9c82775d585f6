# SPDX-License-Identifier: Apache-2.0
"""Whether the database has the schema that this code expects.

Apart from :mod:`stillframe.db.migration`, which brings it there: a process
that only asks need not load alembic, half a second and some megabytes.
"""

import sqlalchemy as sa

from stillframe import conf as stillframe_conf
from stillframe import exceptions
from stillframe.db import base

#: The newest revision in migrations/versions; a test sees to it.
HEAD = '0004'

_revision = sa.table('alembic_version', sa.column('version_num'))


def check() -> None:
    """See that the schema is the one that this code expects.

    A database that does not answer is no mistake of the operator's: who
    needs it says so later, until it is back. One that is not named is a
    mistake: it would be taken for one that does not answer, for ever.

    :raises ConfigError: it is another schema, or there is none; or the
        configuration names no database.
    """
    if not stillframe_conf.CONF.database.connection:
        raise exceptions.ConfigError(
            reason='[database]connection is not set. Set it in the file that '
            'you name with --config-file, or in '
            '/etc/stillframe/stillframe.conf')
    try:
        with base.reader() as conn:
            current = None
            if sa.inspect(conn).has_table(_revision.name):
                current = conn.execute(sa.select(_revision)).scalar()
    except exceptions.ServiceUnavailable:
        return
    # Revisions are numbers of four digits, each above the one before.
    if current is not None and current.isdigit() and current > HEAD:
        raise exceptions.ConfigError(
            reason=f'the database is at revision {current}, and this code '
            f'knows no more than {HEAD}: it is older than what upgraded the '
            'database. Run the newer release here too')
    if current != HEAD:
        raise exceptions.ConfigError(
            reason=f'the database is at revision {current or "none"}, and '
            f'this code needs {HEAD}. Run: stillframe-manage db upgrade')
