# SPDX-License-Identifier: Apache-2.0
"""Links in responses."""

from collections.abc import Iterable
import urllib.parse

from stillframe.api import request


class Links:
    """Builds the links of one request's response.

    They begin as the request did (with its project id only if it had
    one), or with the configured prefix.
    """

    def __init__(self, req: request.Request, prefix: str):
        base = prefix.rstrip('/') or req.application_url
        project = f'{req.url_project}/' if req.url_project else ''
        mount = 'v2' if req.legacy else 'v2.1'
        self._self = f'{base}/{mount}/{project}'
        self._bookmark = f'{base}/{project}'

    def of(self, collection: str, one: str) -> list[dict[str, str]]:
        """Give self and bookmark of one thing."""
        path = f'{collection}/{one}'
        return [{'rel': 'self', 'href': self._self + path},
                {'rel': 'bookmark', 'href': self._bookmark + path}]

    def bookmark(self, collection: str, one: str) -> list[dict[str, str]]:
        """Give the bookmark alone."""
        return [{'rel': 'bookmark',
                 'href': f'{self._bookmark}{collection}/{one}'}]

    def next(self, path: str, query: Iterable[tuple[str, str]],
             marker: str) -> list[dict[str, str]]:
        """Give the link to the page behind this one.

        :param path: of the list, below the mount.
        :param query: the parameters of this request.
        :param marker: id of the last entry of this page.
        """
        pairs = sorted((key, value) for key, value in query
                       if key != 'marker')
        pairs.append(('marker', marker))
        return [{'rel': 'next',
                 'href': f'{self._self}{path}?'
                         f'{urllib.parse.urlencode(pairs)}'}]
