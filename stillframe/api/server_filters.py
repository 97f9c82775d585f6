# SPDX-License-Identifier: Apache-2.0
"""From the query of a list of servers to what the database is asked."""

from collections.abc import Callable
from collections.abc import Mapping
from typing import Any

from stillframe import exceptions
from stillframe.api import microversions as mv
from stillframe.api import request
from stillframe.api.schemas import query as schema
from stillframe.api.schemas import servers as servers_schema
from stillframe.api.views import servers as views
from stillframe.db import servers as db
from stillframe.states import servers as states

# Status words of Nova's that no server here ever has. A list by one of them
# is empty; a list by any other unknown word is a mistake of the caller's.
_ELSEWHERE = frozenset((
    'BUILD', 'HARD_REBOOT', 'MIGRATING', 'PASSWORD', 'REBOOT', 'REBUILD',
    'RESCUE', 'RESIZE', 'REVERT_RESIZE', 'SHELVED', 'SHELVED_OFFLOADED',
    'SOFT_DELETED', 'UNKNOWN', 'VERIFY_RESIZE'))

# Filters by what is the same for all servers: whether a value matches.
_CONSTANT: Mapping[str, Callable[[Any], bool]] = {
    'availability_zone': lambda value: value == views.ZONE,
    'config_drive': lambda value: value.lower() in ('', 'false', '0'),
    'description': lambda value: value == '',
    'ip': lambda value: value == '',
    'ip6': lambda value: value == '',
    'key_name': lambda value: value == '',
    'locked': lambda value: not value,
    'progress': lambda value: value == 0,
    'reservation_id': lambda value: value == '',
    'tags': lambda value: value == '',
    'tags-any': lambda value: value == '',
}

# Filters by equality: parameter and column.
_COLUMNS = {
    'created_at': 'created_at',
    'host': 'host',
    'hostname': 'name',
    'image': 'image_id',
    'launched_at': 'launched_at',
    'node': 'host',
    'power_state': 'power_state',
    'task_state': 'task_state',
    'terminated_at': 'deleted_at',
    'user_id': 'user_id',
    'uuid': 'uuid',
}


def all_tenants(query: Mapping[str, list[Any]]) -> bool:
    """Tell whether the servers of all projects are asked for."""
    return schema.last(query, 'all_tenants', False)


def make(req: request.Request, query: Mapping[str, list[Any]],
         privileged: bool) -> db.Filters | None:
    """Make the filters of a list.

    :param query: as the schema read it.
    :param privileged: whether the caller may use all filters.
    :return: None when no server can match.
    :raises BadRequest: an unknown status word.
    :raises Forbidden: deleted servers, or the order of hosts, for one who
        may not know of them.
    """
    if not privileged:
        _check_order(query)
    ignored = set() if privileged else set(servers_schema.PRIVILEGED)
    if not privileged and req.minor < mv.MORE_FILTERS:
        ignored.update(servers_schema.LATER)
    given = {key: values for key, values in query.items()
             if key not in ignored}
    for key in _CONSTANT.keys() & given.keys():
        if not _CONSTANT[key](given[key][-1]):
            return None
    vm_states = _vm_states(req, given)
    if vm_states is not None and not vm_states:
        return None
    deleted: bool | None = False
    if vm_states == {states.DELETED}:
        if not privileged:
            raise exceptions.Forbidden(
                'Only administrators may list deleted servers.')
        deleted, vm_states = True, None
    elif 'changes-since' in given:
        deleted = None
    if 'deleted' in given:
        deleted = given['deleted'][-1]
    project_id = req.ctxt.project_id
    if all_tenants(query):
        project_id = schema.last(given, 'project_id') or schema.last(
            given, 'tenant_id')
    elif project_id is None:
        # A token of no project owns no servers; None would mean any.
        return None
    return db.Filters(
        project_id=project_id,
        name_pattern=schema.last(given, 'name') or None,
        vm_states=None if vm_states is None else sorted(vm_states),
        changes_since=schema.last(given, 'changes-since'),
        changes_before=schema.last(given, 'changes-before'),
        deleted=deleted,
        equal=tuple((column, given[key][-1])
                    for key, column in _COLUMNS.items() if key in given))


def _check_order(query: Mapping[str, list[Any]]) -> None:
    for key in query.get('sort_key', ()):
        if key in servers_schema.ADMIN_SORT_KEYS:
            raise exceptions.Forbidden(
                f'Only administrators may sort servers by {key}.')


def _vm_states(req: request.Request, given: Mapping[str, list[Any]]
               ) -> set[str] | None:
    """Give the vm_states asked for by vm_state and status; None: any."""
    wanted = set(given['vm_state']) if 'vm_state' in given else None
    words = [word.upper() for word in given.get('status', ()) if word]
    if not words:
        return wanted
    known = {states.vm_state_of_status(word) for word in words} - {None}
    if not known and not _ELSEWHERE.intersection(words):
        if req.minor >= mv.STATUS_CHECKED:
            raise exceptions.BadRequest('Invalid status value')
        return set()
    by_status = {one for one in known if one is not None}
    return by_status if wanted is None else by_status & wanted
