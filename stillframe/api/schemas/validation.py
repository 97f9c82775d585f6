# SPDX-License-Identifier: Apache-2.0
"""Checking bodies against JSON schemas, compiled once."""

import copy
from typing import Any

import jsonschema
from jsonschema import exceptions as schema_errors

from stillframe import exceptions

# A value is quoted in the message only so far.
_QUOTED = 128


class Validator:
    """Checks documents against one schema."""

    def __init__(self, schema: dict[str, Any]):
        jsonschema.Draft202012Validator.check_schema(schema)
        self._strict = jsonschema.Draft202012Validator(schema)
        self._lax = jsonschema.Draft202012Validator(_opened(schema))

    def check(self, document: Any, legacy: bool = False) -> None:
        """Refuse a document that does not match.

        :param legacy: ignore keys that the schema does not know.
        :raises BadRequest: says which field, which value and why.
        """
        validator = self._lax if legacy else self._strict
        error = schema_errors.best_match(validator.iter_errors(document))
        if error is not None:
            raise exceptions.BadRequest(_sentence(error))


def _sentence(error: schema_errors.ValidationError) -> str:
    reason = _shortened(error.message)
    if not error.absolute_path:
        return f'Invalid input: {reason}'
    path = '.'.join(str(step) for step in error.absolute_path)
    return (f'Invalid input for field/attribute {path}. Value: '
            f'{_shortened(str(error.instance))}. {reason}')


def _shortened(text: str) -> str:
    return text if len(text) <= _QUOTED else text[:_QUOTED] + '...'


def _opened(schema: dict[str, Any]) -> dict[str, Any]:
    """Give the schema with additionalProperties allowed everywhere."""
    opened = copy.deepcopy(schema)
    waiting: list[Any] = [opened]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            node.pop('additionalProperties', None)
            waiting.extend(node.values())
        elif isinstance(node, list):
            waiting.extend(node)
    return opened
