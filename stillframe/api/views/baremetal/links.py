# SPDX-License-Identifier: Apache-2.0
"""The link to the next page, as the bare-metal dialect has it."""

from collections.abc import Iterable
import urllib.parse


def next_page(base: str, path: str, query: Iterable[tuple[str, str]],
              limit: int, marker: str) -> str:
    """Give the link to the page behind this one.

    :param base: what links begin with.
    :param path: of the list, below the mount.
    :param query: the parameters of this request.
    :param marker: UUID of the last entry of this page.
    """
    pairs = [(key, value) for key, value in query
             if key not in ('limit', 'marker')]
    pairs += [('limit', str(limit)), ('marker', marker)]
    return f'{base}/v1/{path}?{urllib.parse.urlencode(pairs)}'
