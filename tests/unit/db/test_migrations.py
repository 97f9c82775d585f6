# SPDX-License-Identifier: Apache-2.0
"""The migrated schema is the one that the models describe."""

import alembic.autogenerate
import alembic.runtime.migration
import pytest
import sqlalchemy as sa

from stillframe import exceptions
from stillframe.conf import CONF
from stillframe.db import base
from stillframe.db import migration
from stillframe.db import models
from stillframe.db import schema

pytestmark = pytest.mark.usefixtures('database')


def differences(conn):
    return alembic.autogenerate.compare_metadata(
        alembic.runtime.migration.MigrationContext.configure(
            conn, opts={'compare_type': True,
                        'compare_server_default': True}),
        models.metadata)


def test_models_and_migrations_are_equal():
    with base.get_engine().connect() as conn:
        assert differences(conn) == []


def test_a_difference_would_be_seen():
    with base.get_engine().connect() as conn:
        conn.execute(sa.text('DROP INDEX ix_servers_updated_at'
                             + (' ON servers' if conn.dialect.name
                                in ('mysql', 'mariadb') else '')))
        assert differences(conn)
        conn.rollback()
        # MariaDB does not take back what was done to a schema.
        if conn.dialect.name in ('mysql', 'mariadb'):
            conn.execute(sa.text('CREATE INDEX ix_servers_updated_at '
                                 'ON servers (updated_at)'))


def test_constraints_have_the_names_of_the_models():
    inspector = sa.inspect(base.get_engine())
    for table in models.metadata.sorted_tables:
        found = {one['name'] for one in
                 inspector.get_unique_constraints(table.name)}
        wanted = {one.name for one in table.constraints
                  if isinstance(one, sa.UniqueConstraint)}
        assert wanted == found
        found = {one['name'] for one in
                 inspector.get_foreign_keys(table.name)}
        assert found == {one.name for one in
                         table.foreign_key_constraints}


def test_version_and_head():
    assert migration.head() == schema.HEAD
    assert migration.version() == migration.head()


def test_upgrading_again_changes_nothing():
    migration.upgrade()
    assert migration.version() == migration.head()


def test_a_database_without_tables_has_no_version(tmp_path):
    base.dispose()
    base.configure(CONF)
    CONF.set_override('connection', f'sqlite:///{tmp_path}/empty.sqlite',
                      'database')
    assert migration.version() is None
    with pytest.raises(exceptions.ConfigError) as caught:
        schema.check()
    assert 'revision none' in caught.value.message


def test_a_database_must_be_named():
    CONF.set_override('connection', None, 'database')
    with pytest.raises(exceptions.ConfigError) as caught:
        schema.check()
    assert '[database]connection is not set' in caught.value.message


def test_the_schema_is_checked():
    schema.check()
    with base.writer() as conn:
        conn.exec_driver_sql("UPDATE alembic_version SET version_num = 'x'")
    with pytest.raises(exceptions.ConfigError) as caught:
        schema.check()
    assert 'revision x' in caught.value.message
    assert 'stillframe-manage db upgrade' in caught.value.message
    with base.writer() as conn:
        conn.exec_driver_sql(
            f"UPDATE alembic_version SET version_num = '{schema.HEAD}'")


def test_a_schema_of_a_newer_release():
    with base.writer() as conn:
        conn.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    try:
        with pytest.raises(exceptions.ConfigError) as caught:
            schema.check()
    finally:
        with base.writer() as conn:
            conn.exec_driver_sql(
                f"UPDATE alembic_version SET version_num = '{schema.HEAD}'")
    assert 'Run the newer release here too' in caught.value.message
    assert 'db upgrade' not in caught.value.message


def test_a_database_that_is_away_is_not_judged():
    base.dispose()
    base.configure(CONF, retries=0)
    CONF.set_override('connection', 'mysql+pymysql://root@127.0.0.1:1/x',
                      'database')
    schema.check()
