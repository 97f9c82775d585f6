# SPDX-License-Identifier: Apache-2.0
"""The WSGI application, put together."""

from typing import Any

from oslo_config import cfg

from stillframe.api import application
from stillframe.api import auth
from stillframe.api import body
from stillframe.api import healthcheck
from stillframe.api import hooks
from stillframe.api import request
from stillframe.api import request_id
from stillframe.api import routing
from stillframe.api import workers
from stillframe.api.controllers import base
from stillframe.api.controllers import root
from stillframe.clients import images
from stillframe.db import ring
from stillframe.policies import enforcer
from stillframe.rpc import baremetal_api
from stillframe.rpc import compute_api
from stillframe.rpc import conductor_api


def build_app(conf: cfg.ConfigOpts) -> Any:
    """Build the WSGI application.

    The caller has read the configuration and called
    :func:`stillframe.db.base.configure`.

    :raises ConfigError: callers could not be told apart by the strategy
        that is configured.
    """
    services = base.Services(
        conf=conf, policy=enforcer.Enforcer(conf),
        compute=compute_api.ComputeAPI(conf),
        conductor=conductor_api.ConductorAPI(conf),
        workers=workers.Workers(conf), images=images.connect(conf),
        baremetal=baremetal_api.BaremetalAPI(conf), ring=ring.Ring(conf))
    app: Any = application.Application(
        root.RootController(services),
        hooks=[hooks.ErrorHook(), hooks.UrlHook(),
               hooks.MicroversionHook(), hooks.ContextHook()],
        request_cls=request.Request)
    app = auth.wrap(app, routing.is_public, conf)
    app = body.wrap(app, conf.api.max_request_body)
    return healthcheck.wrap(request_id.wrap(app), conf)
