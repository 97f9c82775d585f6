# SPDX-License-Identifier: Apache-2.0
"""What oslo-config-generator lists."""

from typing import Any

from stillframe import conf


def list_opts() -> list[tuple[str | None, list[Any]]]:
    """Give the options by group, for the sample configuration."""
    return [(module.GROUP or 'DEFAULT', module.OPTS)
            for module in conf.GROUPS]
