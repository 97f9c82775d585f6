# SPDX-License-Identifier: Apache-2.0
"""Body and query of PUT /v1/nodes/{ident}/states/provision and …/power."""

from collections.abc import Mapping
from typing import Any

from oslo_utils import strutils

from stillframe import exceptions
from stillframe.api import baremetal_versions as versions
from stillframe.api import request
from stillframe.api.schemas import validation
from stillframe.api.schemas.baremetal import bodies

#: Since when a verb is there; the others always were.
VERBS: Mapping[str, int] = {
    'manage': 4,
    'provide': 4,
    'abort': versions.ABORT,
    'adopt': versions.ADOPT,
    'deploy': versions.DEPLOY,
    'undeploy': versions.DEPLOY,
    'snapshot': versions.SNAPSHOT,
}

#: Hints by which a disk may be named, as for a node's root device.
_HINTS = ('size', 'model', 'wwn', 'serial', 'vendor', 'wwn_with_extension',
          'wwn_vendor_extension', 'name', 'rotational', 'hctl', 'by_path',
          'tran')

_OPTIONS: Mapping[str, dict[str, Any]] = {
    'image_ref': {'type': 'string', 'minLength': 1},
    'disk_format': {'enum': ['qcow2', 'raw']},
    'compress': {'enum': ['zstd', True, False, None]},
    'skip_free_space': {'type': 'boolean'},
    'device': {'oneOf': [
        {'enum': ['root']},
        {'type': 'object', 'minProperties': 1,
         'propertyNames': {'enum': list(_HINTS)},
         'additionalProperties': {
             'type': ['string', 'integer', 'boolean'], 'maxLength': 255}},
    ]},
    'transport': {'enum': ['webdav', 'davfs', 'nfs']},
    'on_read_error': {'enum': ['stop', 'zero']},
}
_SNAPSHOT = validation.Validator({
    'type': 'object', 'properties': dict(_OPTIONS),
    'additionalProperties': False})
_BOOLEANS = ('compress', 'skip_free_space')
_DEFAULTS = {'compress': None, 'skip_free_space': False, 'device': 'root',
             'transport': 'webdav', 'on_read_error': 'stop'}


def arguments(req: request.Request, known: frozenset[str]
              ) -> dict[str, Any]:
    """Read what a request says in its body and in its query.

    :raises BadRequest: it has no target, or says what is not known.
    """
    found: dict[str, Any] = dict(req.GET)
    try:
        body = bodies.optional(req)
    except exceptions.BadRequest as exc:
        raise exceptions.BadRequest(
            f'Missing mandatory parameter: target. {exc}') from exc
    if isinstance(body, dict):
        found.update(body)
    unknown = sorted(found.keys() - known)
    if unknown:
        raise exceptions.BadRequest(
            f'Unexpected arguments: {", ".join(unknown)[:128]}')
    if found.get('target') is None:
        raise exceptions.BadRequest('Missing mandatory parameter: target')
    if not isinstance(found['target'], str):
        raise exceptions.BadRequest(
            f'Expected string for target: {str(found["target"])[:64]}')
    return found


#: What a request to move a node may say.
PROVISION = frozenset(('target', *_OPTIONS))
#: What one to switch it may say.
POWER = frozenset(('target', 'timeout'))


def check_options(verb: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Check what is said beside the target.

    :return: with the verb snapshot, all its options; else nothing.
    :raises BadRequest: an argument is wrong, missing, or of another verb.
    """
    options = {key: value for key, value in given.items()
               if key != 'target'}
    if verb != 'snapshot':
        if options:
            raise exceptions.BadRequest(
                f'{", ".join(sorted(options))}: valid only when setting '
                'target provision state to snapshot.')
        return {}
    for name in _BOOLEANS:
        # The query has only texts.
        if options.get(name) in ('true', 'false'):
            options[name] = strutils.bool_from_string(options[name])
    _SNAPSHOT.check(options)
    if 'image_ref' not in options:
        raise exceptions.BadRequest(
            'image_ref is required when setting target provision state to '
            'snapshot: the UUID of an image that is queued, or a URL.')
    made = {'disk_format': 'qcow2', **_DEFAULTS, **options}
    if made['compress'] is True:
        made['compress'] = 'zstd'
    made['compress'] = made['compress'] or None
    if made['compress'] and made['disk_format'] != 'qcow2':
        raise exceptions.BadRequest(
            'compress needs disk_format qcow2: a raw image cannot be '
            'compressed.')
    return made


def timeout(given: Mapping[str, Any], minor: int, most: int
            ) -> float | None:
    """Give the seconds that a change of power may take; None: as usual.

    :param most: seconds that are allowed.
    :raises TooOld: this version has no time-out.
    :raises BadRequest: it is no number of seconds from 1 to the most.
    """
    value = given.get('timeout')
    if value is None:
        return None
    versions.require(minor, versions.SOFT_POWER, 'The parameter timeout')
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value[:10])
    if (not isinstance(value, int) or isinstance(value, bool)
            or not 1 <= value <= most):
        raise exceptions.BadRequest(
            'timeout must be a whole number of seconds, from 1 to '
            f'{most} ([baremetal]max_power_timeout).')
    return float(value)
