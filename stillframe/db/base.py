# SPDX-License-Identifier: Apache-2.0
"""Connections to the database, by oslo.db's enginefacade.

Everything above works in the form ``with base.writer() as conn``: one short
transaction, Core statements, plain mappings out. No session and no object
of the ORM leaves this package, so none can cross a request.
"""

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import MutableMapping
import contextlib
import datetime
import math
import os
import re
import sqlite3
import time
from typing import Any
from typing import TypeVar
import weakref

from oslo_config import cfg
from oslo_db import api as db_api
from oslo_db import exception as db_exc
from oslo_db import options as db_options
from oslo_db.sqlalchemy import enginefacade
from oslo_log import log
import sqlalchemy as sa

from stillframe import exceptions

LOG = log.getLogger(__name__)

#: Most characters in a column without a length of its own; MySQL's TEXT
#: takes 65535 bytes.
TEXT_MAX = 16000
#: What errors call the database.
SERVICE = 'The database'

# Seconds for which a connection that was just used is taken to be good:
# more than passes between two of many requests, less than a server needs to
# be stopped and started.
_FRESH = 0.1

_F = TypeVar('_F', bound=Callable[..., Any])

_manager = enginefacade.transaction_context()
# See _tune_sqlite.
_keepers: list[sqlite3.Connection] = []


@enginefacade.transaction_context_provider
class _Context:
    """What enginefacade hangs a transaction on: one for each use."""


def embedded(conf: cfg.ConfigOpts) -> str:
    """Give what the command stillframe connects to if nothing is said."""
    return 'sqlite:///' + os.path.join(conf.state_path, 'stillframe.sqlite')


def configure(conf: cfg.ConfigOpts, retries: int = 1) -> None:
    """Read [database]; call once in a process, before the first use.

    :param retries: how often a first connection is tried again, unless
        the configuration says it.
    """
    # A server that is not there is an answer, not a reason to hang: the
    # library's own default waits 100 s with a request in its hands.
    db_options.set_defaults(conf, max_pool_size=16)
    conf.set_default('max_retries', retries, group='database')
    conf.set_default('retry_interval', 1, group='database')
    # thread_checkin sleeps at each return of a connection, for eventlet.
    _manager.configure(sqlite_fk=True, thread_checkin=False)
    _manager.append_on_engine_create(_tune_sqlite)
    _manager.append_on_engine_create(_tune_mysql)
    _manager.append_on_engine_create(_spare_pings)


def retry(*also: type[Exception]) -> Callable[[_F], _F]:
    """Make a function run again when its transaction lost a deadlock.

    For functions that are one whole transaction. After six tries, some two
    seconds, the error goes to the caller.

    :param also: further errors that a second try may not meet, such as
        DBDuplicateEntry where the second try finds the row.
    """
    return db_api.wrap_db_retry(
        max_retries=5, retry_interval=0.02, max_retry_interval=1,
        inc_retry_interval=True, jitter=True, retry_on_deadlock=True,
        exception_checker=lambda exc: isinstance(exc, also))


def _tune_mysql(engine: sa.engine.Engine) -> None:
    """Give MariaDB and MySQL the isolation that PostgreSQL has.

    Under their own default, a transaction goes on reading what was true
    at its first query, beside locks that see the present; and searches
    lock the gaps between rows, so that inserts of different servers meet
    in deadlocks.
    """
    if engine.dialect.name not in ('mysql', 'mariadb'):
        return

    @sa.event.listens_for(engine, 'connect')
    def _connect(dbapi_connection, _record):
        with dbapi_connection.cursor() as cursor:
            cursor.execute(
                'SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED')
            # oslo.db's default charset has no room for all of Unicode.
            cursor.execute('SET NAMES utf8mb4')
            # A blocked row is a deadlock as good as any: try again.
            cursor.execute('SET SESSION innodb_lock_wait_timeout = 10')

    # oslo.db has tried the server already; that connection knows nothing
    # of this.
    engine.dispose()


def _spare_pings(engine: sa.engine.Engine) -> None:
    """Ask a server whether it is there only after a pause.

    The pool asks before each use of a connection: a round trip more for
    each of hundreds of transactions a second, which says nothing new of a
    connection that answered a moment ago. When that one breaks all the
    same, the pool is made anew, and one request has failed.
    """
    if engine.dialect.name == 'sqlite':
        return
    used: MutableMapping[Any, float] = weakref.WeakKeyDictionary()
    ping = engine.dialect.do_ping

    @sa.event.listens_for(engine, 'checkin')
    def _checkin(dbapi_connection, _record):
        # None: it was found broken.
        if dbapi_connection is not None:
            used[dbapi_connection] = time.monotonic()

    def do_ping(dbapi_connection: Any) -> bool:
        return (time.monotonic() - used.get(dbapi_connection, -math.inf)
                < _FRESH or ping(dbapi_connection))

    engine.dialect.do_ping = do_ping  # type: ignore[method-assign]


def _tune_sqlite(engine: sa.engine.Engine) -> None:
    """Make SQLite wait for a lock instead of failing on it.

    With write-ahead logging, readers never block; see also writer(). A
    power failure may take back the last transactions (a kill cannot, and
    the file stays whole), but it also ends every guest of this machine,
    which is what they are about: no guest waits, frozen, for the disk.
    """
    if engine.dialect.name != 'sqlite':
        return

    @sa.event.listens_for(engine, 'connect')
    def _connect(dbapi_connection, _record):
        dbapi_connection.execute('PRAGMA busy_timeout = 30000')
        dbapi_connection.execute('PRAGMA journal_mode = WAL')
        dbapi_connection.execute('PRAGMA synchronous = NORMAL')
        if engine.url.database and not _keepers:
            # oslo.db opens and closes a connection for each transaction.
            # The last one to close has to copy the whole log and wait for
            # the disk: this one stays, and is never the last.
            keeper = sqlite3.connect(engine.url.database,
                                     check_same_thread=False)
            keeper.execute('PRAGMA journal_mode = WAL').close()
            _keepers.append(keeper)


@contextlib.contextmanager
def reader() -> Iterator[sa.engine.Connection]:
    """Give a connection in a transaction that only reads.

    :raises ServiceUnavailable: the database cannot be reached.
    """
    # Not by enginefacade's reader: it rolls back, and the pool does so
    # again, a round trip more for each read.
    with _unavailable(), get_engine().connect() as conn:
        yield conn


@contextlib.contextmanager
def writer() -> Iterator[sa.engine.Connection]:
    """Give a connection in a transaction that is committed at the end.

    :raises ServiceUnavailable: the database cannot be reached.
    :raises CommitUncertain: it broke off at the very end.
    """
    with _unavailable() as step, _manager.writer.connection.using(
            _Context()) as conn:
        if conn.dialect.name == 'sqlite':
            # The transaction that oslo.db began reads until it writes; if
            # another wrote in between, it fails at once with "database is
            # locked", whatever the time-out. This one writes from the
            # start, and so waits for its turn.
            conn.exec_driver_sql('ROLLBACK')
            conn.exec_driver_sql('BEGIN IMMEDIATE')
        yield conn
        step.is_last = True


class _Step:
    """Where a transaction is.

    :ivar is_last: all that is left of it is to be committed.
    """

    is_last = False


@contextlib.contextmanager
def _unavailable() -> Iterator[_Step]:
    step = _Step()
    try:
        yield step
    # oslo.db knows the connection errors of psycopg2, not of psycopg 3;
    # what it leaves an OperationalError is trouble on the server's side.
    except (db_exc.DBConnectionError, db_exc.CantStartEngineError,
            db_exc.DBNonExistentDatabase, sa.exc.OperationalError,
            sa.exc.TimeoutError) as exc:
        LOG.warning('The database failed: %s', exc)
        kind = (exceptions.CommitUncertain if step.is_last
                else exceptions.ServiceUnavailable)
        raise kind(service=SERVICE, what='the request') from exc


def get_engine() -> sa.engine.Engine:
    """Give the engine, for migrations and for health checks."""
    return _manager.writer.get_engine()


def disconnect() -> None:
    """Close the connections of the pool; the next use opens new ones."""
    _manager.dispose_pool()


def dispose() -> None:
    """Close all connections and forget the configuration."""
    global _manager
    _manager.dispose_pool()
    _manager = enginefacade.transaction_context()
    while _keepers:
        _keepers.pop().close()


def clip(column: sa.Column, text: str | None) -> str | None:
    """Cut a text to what its column takes.

    A text of a guest's or a hypervisor's that is too long must not keep
    the rest of a report from being written.
    """
    limit = getattr(column.type, 'length', None) or TEXT_MAX
    if text is None or len(text) <= limit:
        return text
    return text[:limit - 3] + '...'


def taken_column(exc: db_exc.DBDuplicateEntry, table: sa.Table) -> str:
    """Give the first column of the unique constraint that was violated.

    What oslo.db says of columns it does not say of every driver.

    :return: '' where it cannot be told.
    """
    told = str(getattr(exc.inner_exception, 'orig', None) or exc)
    found = re.search(rf'\buq_{table.name}_(\w+)|\b{table.name}\.(\w+)',
                      told)
    return (found[1] or found[2]) if found else ''


def utcnow() -> datetime.datetime:
    """Give the wall clock as it is stored: UTC without a zone."""
    return datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
