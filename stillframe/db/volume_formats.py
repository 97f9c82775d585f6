# SPDX-License-Identifier: Apache-2.0
"""What is known of the formats of a volume's files.

It was learned from the chain of a running guest, or from the rule for what
a merge does; see :mod:`stillframe.compute.libvirt.chains`. The chain that
was seen last replaces what was known: a file that has left the chain is
Cinder's again.
"""

from collections.abc import Mapping
import datetime

import sqlalchemy as sa

from stillframe.db import models

_f = models.volume_formats


def known(conn: sa.engine.Connection, volume_id: str) -> dict[str, str]:
    """Give the known formats of a volume by file name."""
    return {row.file: row.format for row in conn.execute(
        sa.select(_f.c.file, _f.c.format)
        .where(_f.c.volume_id == volume_id))}


def learn(conn: sa.engine.Connection, volume_id: str,
          formats: Mapping[str, str], now: datetime.datetime) -> None:
    """Replace what is known of a volume's files."""
    before = known(conn, volume_id)
    gone = [file for file in before if file not in formats]
    if gone:
        conn.execute(sa.delete(_f).where(_f.c.volume_id == volume_id,
                                         _f.c.file.in_(gone)))
    for file, format_ in formats.items():
        if file not in before:
            conn.execute(sa.insert(_f).values(
                volume_id=volume_id, file=file, format=format_,
                learned_at=now))
        elif before[file] != format_:
            conn.execute(
                sa.update(_f)
                .where(_f.c.volume_id == volume_id, _f.c.file == file)
                .values(format=format_, learned_at=now))
