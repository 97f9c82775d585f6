# SPDX-License-Identifier: Apache-2.0
"""Queries of GET /servers and /servers/detail."""

import re
from typing import Any

from stillframe.api import microversions as mv
from stillframe.api import request
from stillframe.api.schemas import query
from stillframe.states import servers as states

#: What a list is sorted by: Nova's names and the column behind each. None:
#: all servers are alike in it.
SORT_KEYS: dict[str, str | None] = {
    'created_at': 'created_at',
    'display_name': 'name',
    'host': 'host',
    'hostname': 'name',
    'launched_at': 'launched_at',
    'name': 'name',
    'node': 'host',
    'power_state': 'power_state',
    'project_id': 'project_id',
    'task_state': 'task_state',
    'updated_at': 'updated_at',
    'user_id': 'user_id',
    'uuid': 'uuid',
    'vm_state': 'vm_state',
    'access_ip_v4': None,
    'access_ip_v6': None,
    'auto_disk_config': None,
    'availability_zone': None,
    'config_drive': None,
    'display_description': None,
    'key_name': None,
    'locked': None,
}

#: Sort keys that tell where servers run.
ADMIN_SORT_KEYS = frozenset(('host', 'node'))

_POWER_STATES = [str(one) for one in sorted(states.POWER_STATES)]

# Matching runs in this very process where the database is SQLite. A name
# has 255 characters at most: each repetition multiplies the steps by that,
# each choice inside a group doubles them.
_REPETITIONS_MAX = 2
_CHOICES_MAX = 4
# The most that PostgreSQL takes.
_COUNT_MAX = 255

# The pieces of a regular expression, without what makes the time explode
# or what databases write in different ways: no repeated groups, no
# look-around, no back references.
_PIECE = re.compile(
    r'''(?: \\[ -/:-@[-`{-~] | \\[dDsSwW]       # escapes
        | \[\^?\]?[^\]\[\\]*\]                 # a set of characters
        | [^\\\[\]()|^$*+?{}]                  # any other, also "."
    ) (?P<repeated>[*+?]\??|\{(?P<least>\d{1,3})(?:,(?P<most>\d{0,3}))?\})?
    | (?P<open>\((?!\?)) | (?P<close>\)(?![*+?{]))
    | (?P<choice>\|) | [$^](?![*+?{])
    ''', re.VERBOSE | re.DOTALL | re.ASCII)


def name_pattern(value: str) -> str:
    """Take a regular expression for names.

    :raises ValueError: it is none, or none that every database finishes
        in a bounded time.
    """
    value = query.text(value)
    position = repetitions = choices = depth = 0
    while position < len(value):
        piece = _PIECE.match(value, position)
        if piece is None:
            raise ValueError(
                'is no regular expression of the kind that is taken: '
                'characters, sets, groups, alternatives, and repetitions '
                f'of single characters; see position {position}')
        depth += (piece['open'] is not None) - (piece['close'] is not None)
        choices += piece['choice'] is not None and depth > 0
        repetitions += piece['repeated'] is not None
        if max(int(piece['least'] or 0),
               int(piece['most'] or 0)) > _COUNT_MAX:
            raise ValueError(f'repeats more than {_COUNT_MAX} times')
        position = piece.end()
    if repetitions > _REPETITIONS_MAX or choices > _CHOICES_MAX:
        raise ValueError(
            f'has more than {_REPETITIONS_MAX} repetitions or '
            f'{_CHOICES_MAX} alternatives in groups, which may take too '
            'long to match')
    try:
        re.compile(value)
    except re.error as exc:
        raise ValueError(f'is no regular expression: {exc}') from None
    return value


def sort_key(value: str) -> str:
    """Take a name by which servers can be sorted."""
    if value not in SORT_KEYS:
        raise ValueError('is no attribute by which servers can be sorted')
    return value


def power_state(value: str) -> int:
    """Take the number of a power state."""
    if value not in _POWER_STATES:
        raise ValueError(f'must be one of {", ".join(_POWER_STATES)}')
    return int(value)


def sort_dir(value: str) -> str:
    """Take a direction."""
    if value not in ('asc', 'desc'):
        raise ValueError('must be asc or desc')
    return value


_EVERYBODY: query.Schema = {
    'limit': query.count,
    'marker': query.text,
    'sort_key': sort_key,
    'sort_dir': sort_dir,
    'all_tenants': query.boolean,
    'status': query.text,
    'name': name_pattern,
    'image': query.text,
    'ip': query.text,
    'ip6': query.text,
    'reservation_id': query.text,
    'changes-since': query.time,
    'changes-before': query.time,
    'tags': query.text,
    'tags-any': query.text,
    'not-tags': query.text,
    'not-tags-any': query.text,
    'locked': query.boolean,
}

#: Filters that every caller has from microversion 2.83 on, and before that
#: those who may use all filters.
LATER: query.Schema = {
    'availability_zone': query.text,
    'config_drive': query.text,
    'created_at': query.time,
    'key_name': query.text,
    'launched_at': query.time,
    'power_state': power_state,
    'progress': query.count,
    'task_state': query.text,
    'terminated_at': query.time,
    'user_id': query.text,
    'vm_state': query.text,
}

#: Filters for those who may use all of them. Others' use is ignored, as in
#: Nova.
PRIVILEGED: query.Schema = {
    'deleted': query.boolean,
    'description': query.text,
    'host': query.text,
    'hostname': query.text,
    'node': query.text,
    'project_id': query.text,
    'tenant_id': query.text,
    'uuid': query.text,
}

_ALL: query.Schema = {**_EVERYBODY, **LATER, **PRIVILEGED}

# A parameter and the microversion that brought it.
_SINCE = {'changes-before': mv.CHANGES_BEFORE, 'locked': mv.LOCKED_REASON,
          'tags': mv.TAGS, 'tags-any': mv.TAGS, 'not-tags': mv.TAGS,
          'not-tags-any': mv.TAGS}


def parse(req: request.Request) -> dict[str, list[Any]]:
    """Read the query of a list.

    :raises BadRequest: a parameter is malformed or unknown.
    """
    found = query.parse(req, _ALL, mv.STRICT_QUERIES)
    for key in _SINCE.keys() & found.keys():
        if req.minor < _SINCE[key]:
            del found[key]
    query.check_changes(found)
    return found
