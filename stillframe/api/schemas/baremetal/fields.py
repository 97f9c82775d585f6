# SPDX-License-Identifier: Apache-2.0
"""The fields of a resource: which there are, and what a user sets of them."""

from collections.abc import Mapping
import dataclasses
import json
from typing import Any

from stillframe import exceptions
from stillframe.api import baremetal_versions as versions
from stillframe.api import request
from stillframe.api.schemas import validation
from stillframe.api.schemas.baremetal import patches

# Bytes of a field after a patch, as JSON: what one request could have set
# at once. Else it would grow with each patch, and with it all lists.
_SIZE_MAX = 64 << 10


@dataclasses.dataclass(frozen=True)
class Fields:
    """The fields of one kind of resource.

    :ivar what: the kind, in messages: ``node``.
    :ivar since: all fields, and since which microversion.
    :ivar fixed: fields with nothing behind them: since when, and the one
        value that each has.
    :ivar settable: schemas of those that a user sets, by column.
    :ivar unset: what one of those is that was removed, where that is not
        null.
    :ivar body: checks all that is set together.
    """

    what: str
    since: Mapping[str, int]
    fixed: Mapping[str, tuple[int, Any]]
    settable: Mapping[str, dict[str, Any]]
    unset: Mapping[str, Any]
    body: validation.Validator

    def check_names(self, names: Mapping[str, Any], minor: int) -> None:
        """Refuse fields that a version does not have.

        :raises TooOld: not yet in this version.
        :raises BadRequest: there is no such field.
        """
        for name in names:
            if name not in self.since:
                raise exceptions.BadRequest(
                    f'Unknown attribute: a {self.what} has no {name[:64]}.')
            versions.require(minor, self.since[name], f'The field {name}')

    def by_column(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """Check what a user sets, and give it by column.

        :param document: the fields; uuid is not looked at.
        :raises BadRequest: a field is wrong, or has nothing behind it
            here, or is ours to set.
        """
        values = {}
        for name, value in document.items():
            if name in self.fixed:
                fixed = self.fixed[name][1]
                if value != fixed and value is not None:
                    raise exceptions.BadRequest(
                        f'Invalid input for field/attribute {name}: this '
                        f'service has nothing but {fixed!r} there.')
            elif name in self.settable:
                values[name] = (self.unset[name]
                                if value is None and name in self.unset
                                else value)
            elif name != 'uuid':
                raise exceptions.BadRequest(
                    f"'/{name}' is an internal attribute and can not be "
                    'set.')
        self.body.check(values)
        return values

    def patched(self, patch: list[dict[str, Any]],
                row: Mapping[Any, Any]) -> dict[str, Any]:
        """Give what a user set of a resource, after a patch.

        :return: the fields that can be set, and those with one value that
            the patch names; null where something was removed.
        :raises BadRequest: the patch cannot be applied, makes a field too
            large or too deep, or is about what is ours to set.
        """
        before = {name: row[name] for name in self.settable}
        touched = patches.touched(patch)
        for name in touched:
            if name in self.fixed:
                before[name] = self.fixed[name][1]
            elif name not in before:
                raise exceptions.BadRequest(
                    f"'/{name}' is an internal attribute and can not be "
                    'updated.')
        after = patches.applied(patch, before)
        for name in touched:
            _check_extent(name, after.get(name))
        return {name: after.get(name) for name in before}


def _check_extent(name: str, value: Any) -> None:
    """Refuse what no single request could have set.

    :raises BadRequest: it is too large or too deep.
    """
    try:
        size = len(json.dumps(request.depth_checked(value)))
    except ValueError as exc:
        raise exceptions.BadRequest(
            f"Couldn't apply patch: {name} would be too much: {exc}."
        ) from None
    if size > _SIZE_MAX:
        raise exceptions.BadRequest(
            f"Couldn't apply patch: {name} would have {size} bytes, and may "
            f'have {_SIZE_MAX}.')
