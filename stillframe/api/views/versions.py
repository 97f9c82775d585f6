# SPDX-License-Identifier: Apache-2.0
"""Version documents; clients find the microversions in them."""

from typing import Any

from stillframe.api import baremetal_versions
from stillframe.api import microversions

_UPDATED = '2026-11-29T00:00:00Z'

_JSON = 'application/json'

# Collections of the bare-metal dialect, and since when it has them.
_COLLECTIONS = {
    'nodes': baremetal_versions.MIN,
    'ports': baremetal_versions.MIN,
    'drivers': baremetal_versions.MIN,
    'lookup': baremetal_versions.RAMDISK,
    'heartbeat': baremetal_versions.RAMDISK,
    'conductors': baremetal_versions.CONDUCTORS,
}


def _version(mount: str, base: str) -> dict[str, Any]:
    is_legacy = mount == 'v2'
    return {
        'id': 'v2.0' if is_legacy else mount,
        'status': 'SUPPORTED' if is_legacy else 'CURRENT',
        'version': '' if is_legacy else microversions.text(
            microversions.MAX),
        'min_version': '' if is_legacy else microversions.text(
            microversions.MIN),
        'updated': _UPDATED,
        'links': [{'rel': 'self', 'href': f'{base}/{mount}/'}],
    }


def _media_types(mount: str) -> list[dict[str, str]]:
    version = '2' if mount == 'v2' else '2.1'
    return [{'base': _JSON,
             'type': 'application/vnd.openstack.compute+json;'
                     f'version={version}'}]


def all_versions(base: str) -> dict[str, Any]:
    """Write what GET / answers.

    :param base: what links begin with.
    """
    baremetal = baremetal_version(base)
    return {
        'name': 'Stillframe',
        'description': 'Snapshots that can be trusted: of servers, as the '
                       'compute API has them (v2.1), and of bare-metal '
                       'nodes, as the bare-metal API has them (v1).',
        # The ramdisk agent takes the version that it may speak from here.
        'default_version': baremetal,
        'versions': [_version('v2', base), _version('v2.1', base),
                     baremetal]}


def baremetal_version(base: str) -> dict[str, Any]:
    """Write the version of the bare-metal dialect."""
    return {
        'id': 'v1',
        'status': 'CURRENT',
        'version': baremetal_versions.text(baremetal_versions.MAX),
        'min_version': baremetal_versions.text(baremetal_versions.MIN),
        'links': [{'rel': 'self', 'href': f'{base}/v1/'}],
    }


def baremetal_root(base: str, minor: int) -> dict[str, Any]:
    """Write what GET /v1/ answers.

    :param minor: the version of the request: only the collections that it
        has are listed.
    """
    version = baremetal_version(base)
    document = {
        'id': 'v1',
        'links': version['links'],
        'media_types': [{'base': _JSON, 'type':
                         'application/vnd.openstack.ironic.v1+json'}],
        'version': version,
    }
    for name, since in _COLLECTIONS.items():
        if minor >= since:
            document[name] = [
                {'rel': 'self', 'href': f'{base}/v1/{name}/'},
                {'rel': 'bookmark', 'href': f'{base}/{name}/'}]
    return document


def one_version(mount: str, base: str) -> dict[str, Any]:
    """Write what GET /v2.1/ answers."""
    document = _version(mount, base)
    document['media-types'] = _media_types(mount)
    return {'version': document}


def choices(base: str, path: str) -> dict[str, Any]:
    """Write what a path without a version is answered with.

    :param path: begins with a slash.
    """
    found = []
    for mount in ('v2', 'v2.1'):
        version = _version(mount, base)
        found.append({
            'id': version['id'], 'status': version['status'],
            'links': [{'rel': 'self', 'href': f'{base}/{mount}{path}'}],
            'media-types': _media_types(mount)})
    return {'choices': found}
