# SPDX-License-Identifier: Apache-2.0
"""The root of all paths: version documents, and the way to the dialects."""

from collections.abc import Callable
from typing import Any

from stillframe.api import dialects
from stillframe.api import errors
from stillframe.api import request
from stillframe.api import routing
from stillframe.api.controllers import baremetal
from stillframe.api.controllers import base
from stillframe.api.controllers import compute
from stillframe.api.views import versions


class RootController:
    """Routes requests, and tells which versions there are."""

    def __init__(self, services: base.Services):
        self._link_prefix = services.conf.api.link_prefix.rstrip('/')
        self._compute = compute.routes(services)
        self._baremetal = baremetal.routes(services)
        self._boot = baremetal.boot_routes(services)

    def choose(self, req: request.Request) -> tuple[Callable, list[str]]:
        """Choose the method that answers, and the values that it takes.

        :raises NoSuchPath: there is none.
        :raises NoSuchMethod: there is, but not with this HTTP method.
        """
        is_baremetal = dialects.of(
            req.path_info) is dialects.Dialect.BAREMETAL
        if is_baremetal and req.environ[request.SEGMENTS]:
            return self._baremetal.find(
                req.method, req.environ[request.SEGMENTS])
        if not routing.is_public(req.path_info):
            return self._compute.find(
                req.method, req.environ[request.SEGMENTS])
        args = req.path_info.split('/')[1:]
        if args[:1] == ['boot']:
            return self._boot.find(req.method, args[1:])
        if req.method not in ('GET', 'HEAD'):
            raise errors.NoSuchMethod(req.method, ('GET',))
        if is_baremetal:
            return self.baremetal, []
        if args and args[0] in routing.COMPUTE_MOUNTS:
            return self.version, [args[0]]
        if any(args):
            return self.choices, []
        return self.index, []

    @base.expose
    def index(self, req: request.Request, resp: Any) -> dict[str, Any]:
        """Say which versions there are."""
        return versions.all_versions(self._base(req))

    @base.expose
    def version(self, req: request.Request, resp: Any,
                mount: str) -> dict[str, Any]:
        """Say what one version is like."""
        return versions.one_version(mount, self._base(req))

    @base.expose
    def baremetal(self, req: request.Request,
                  resp: Any) -> dict[str, Any]:
        """Say what the bare-metal dialect is like."""
        return versions.baremetal_root(self._base(req), req.minor)

    @base.expose
    def choices(self, req: request.Request, resp: Any) -> dict[str, Any]:
        """Offer the versions for a path that names none."""
        resp.status = 300
        return versions.choices(self._base(req), req.path_info)

    def _base(self, req: request.Request) -> str:
        return self._link_prefix or req.application_url
