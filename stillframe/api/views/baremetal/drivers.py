# SPDX-License-Identifier: Apache-2.0
"""Hardware types on the wire."""

from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from stillframe.api import baremetal_versions as versions
from stillframe.api.views.baremetal import node_fields
from stillframe.drivers import factory

_KINDS = ('bios', 'boot', 'console', 'deploy', 'firmware', 'inspect',
          'management', 'network', 'power', 'raid', 'rescue', 'snapshot',
          'storage', 'vendor')
_DYNAMIC = versions.DYNAMIC_DRIVERS


def _since(kind: str) -> int:
    return max(node_fields.SINCE[f'{kind}_interface'], _DYNAMIC)


#: Since when each field is there.
SINCE: Mapping[str, int] = {
    'name': 1, 'hosts': 1, 'links': 1, 'properties': 14,
    'type': _DYNAMIC,
    **{f'{how}_{kind}_interface{"s" if how == "enabled" else ""}':
       _since(kind) for kind in _KINDS for how in ('default', 'enabled')},
}


def driver(name: str, hosts: Sequence[str],
           choices: Mapping[str, factory.Choice] | None, base: str,
           minor: int) -> dict[str, Any]:
    """Write a hardware type.

    :param choices: its interfaces by kind; None to leave them out.
    :param base: what links begin with.
    """
    path = f'drivers/{name}'
    document: dict[str, Any] = {
        'name': name, 'hosts': list(hosts), 'links': _links(base, path)}
    if minor >= SINCE['properties']:
        document['properties'] = _links(base, f'{path}/properties')
    if minor >= _DYNAMIC:
        document['type'] = 'dynamic'
        if choices is not None:
            for kind in _KINDS:
                if minor >= _since(kind):
                    default, enabled = _interfaces(kind, choices)
                    document[f'default_{kind}_interface'] = default
                    document[f'enabled_{kind}_interfaces'] = enabled
    return document


def _interfaces(kind: str, choices: Mapping[str, factory.Choice]
                ) -> tuple[str | None, list[str]]:
    fixed = node_fields.FIXED.get(f'{kind}_interface')
    if fixed is not None:
        return fixed[1], [fixed[1]]
    choice = choices.get(kind)
    return (None, []) if choice is None else (choice.default,
                                              list(choice.enabled))


def _links(base: str, path: str) -> list[dict[str, str]]:
    return [{'rel': 'self', 'href': f'{base}/v1/{path}'},
            {'rel': 'bookmark', 'href': f'{base}/{path}'}]
