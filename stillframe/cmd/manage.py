# SPDX-License-Identifier: Apache-2.0
"""stillframe-manage: what an operator does to the database.

Each command prints what it did, and ends with 0; with 1 and a sentence
when it could not.
"""

import argparse
import datetime
import sys
from typing import Any

import alembic.util
from oslo_config import cfg
from oslo_db import exception as db_exc
from oslo_upgradecheck import upgradecheck
import sqlalchemy as sa

from stillframe import conf as stillframe_conf
from stillframe import exceptions
from stillframe import service
from stillframe.cmd import upgrade_checks
from stillframe.db import base
from stillframe.db import migration
from stillframe.db import purging

PROG = 'stillframe-manage'


def db_upgrade(conf: cfg.ConfigOpts) -> int:
    """Bring the schema up."""
    before = migration.version()
    migration.upgrade(conf.command.revision)
    after = migration.version()
    if before == after:
        print(f'The database is at revision {after} already.')
    else:
        print(f'The database went from revision {before or "none"} '
              f'to {after}.')
    return 0


def db_version(conf: cfg.ConfigOpts) -> int:
    """Print the revision of the database and of this code."""
    current, head = migration.version(), migration.head()
    if current is None:
        print('The database has no tables yet. '
              f'Run: {PROG} db upgrade', file=sys.stderr)
        return 1
    print(current if current == head else
          f'{current} (this code needs {head}; run: {PROG} db upgrade)')
    return 0


def db_purge(conf: cfg.ConfigOpts) -> int:
    """Delete what was over so many days ago."""
    before = base.utcnow() - datetime.timedelta(days=conf.command.older_than)
    for table, number in purging.purge(before).items():
        print(f'{table}: {number} deleted')
    return 0


def upgrade_check(conf: cfg.ConfigOpts) -> int:
    """Tell whether the services can be started with this code."""
    # Where the library looks for --json.
    upgradecheck.CONF = conf
    return int(upgrade_checks.Checks(conf).check())


def _days(text: str) -> float:
    try:
        days = float(text)
    except ValueError:
        days = -1.0
    # The smallest date is the limit of what can be subtracted.
    if not 0 <= days < 700000:
        raise argparse.ArgumentTypeError(
            f'{text!r} is not a number of days from 0 to 700000')
    return days


def _add_parsers(subparsers: Any) -> None:
    db = subparsers.add_parser('db', help='the database').add_subparsers(
        dest='db_command', required=True, metavar='COMMAND')
    one = db.add_parser('upgrade', help='bring the schema up to date')
    one.add_argument('--revision', default='head',
                     help='where to stop; default: the newest')
    one.set_defaults(run=db_upgrade)
    one = db.add_parser('version', help='print the revision of the schema')
    one.set_defaults(run=db_version)
    one = db.add_parser(
        'purge', help='delete servers that were deleted, actions, faults, '
                      'freezes, images, volume snapshots and snapshots of '
                      'nodes that were over, what is known of volumes that '
                      'no server has, and workers and conductors that were '
                      'not heard of, since so long ago')
    one.add_argument('--older-than', type=_days, required=True,
                     metavar='DAYS')
    one.set_defaults(run=db_purge)
    upgrade = subparsers.add_parser(
        'upgrade', help='after new code was installed').add_subparsers(
        dest='upgrade_command', required=True, metavar='COMMAND')
    one = upgrade.add_parser(
        'check', help='tell what is to be done before the services start; '
                      'ends with 0 (nothing), 1 (warnings), 2 (something)')
    one.add_argument('--json', action='store_true')
    one.set_defaults(run=upgrade_check)


def main(argv: list[str] | None = None) -> int:
    """Run one command; the console script.

    :param argv: arguments without the program's name; None: sys.argv.
    """
    # Registered once in a process; a second time is no error.
    stillframe_conf.CONF.register_cli_opt(cfg.SubCommandOpt(
        'command', title='commands',
        handler=_add_parsers))
    conf = service.prepare(
        argv, prog=PROG,
        description='Looks after the database. Give --config-file before '
                    'the command.')
    # A person waits: say at once that the server does not answer.
    base.configure(conf, retries=0)
    try:
        return conf.command.run(conf)
    except alembic.util.CommandError as exc:
        return _fail(f'The schema cannot be upgraded: {exc}.')
    except exceptions.ServiceUnavailable as exc:
        # Of the API, "try again in a moment"; here, what is set wrongly.
        return _fail(_unreachable(conf, exc.__cause__ or exc))
    except exceptions.StillframeError as exc:
        return _fail(str(exc))
    except (db_exc.DBNonExistentTable, sa.exc.NoSuchTableError):
        return _fail('The database has no tables yet. '
                     f'Run: {PROG} db upgrade')
    except (db_exc.DBConnectionError, db_exc.CantStartEngineError,
            db_exc.DBNonExistentDatabase, sa.exc.OperationalError) as exc:
        return _fail(_unreachable(conf, exc))
    except sa.exc.ArgumentError as exc:
        return _fail(f'[database]connection is no database URL: {exc}')
    except (sa.exc.NoSuchModuleError, ModuleNotFoundError) as exc:
        return _fail('The driver that [database]connection names is not '
                     f'installed: {exc}')
    finally:
        base.dispose()


def _fail(message: str) -> int:
    print(f'{PROG}: {message}', file=sys.stderr)
    return 1


def _unreachable(conf: cfg.ConfigOpts, exc: BaseException) -> str:
    if conf.database.connection is None:
        return ('[database]connection is not set. Name the file that sets '
                'it with --config-file, before the command. The process '
                'stillframe, where it is not told either, uses '
                f'{base.embedded(conf)}: set that.')
    url = sa.engine.make_url(conf.database.connection)
    return (f'The database {url.render_as_string(hide_password=True)} '
            f'([database]connection) does not answer: {exc}')


if __name__ == '__main__':
    sys.exit(main())
