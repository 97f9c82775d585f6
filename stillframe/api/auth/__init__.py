# SPDX-License-Identifier: Apache-2.0
"""Finding out who asks: one module a strategy.

Each has a function ``wrap`` that gives a WSGI middleware, which leaves a
request context in the environment or answers 401 itself. Headers by which a
caller could claim an identity are believed only where the strategy has set
them.
"""

import importlib
from typing import Any

from oslo_config import cfg


def wrap(app: Any, public: Any, conf: cfg.ConfigOpts) -> Any:
    """Put the configured strategy in front of an application.

    The module of another strategy is not loaded: Keystone's alone takes
    10 MB.

    :param app: the WSGI application.
    :param public: tells of a path whether nobody has to be known for it.
    """
    strategy = importlib.import_module(
        f'stillframe.api.auth.{conf.api.auth_strategy}')
    guarded = strategy.wrap(app, conf)

    def middleware(environ, start_response):
        if public(environ.get('PATH_INFO', '')):
            return app(environ, start_response)
        return guarded(environ, start_response)

    return middleware
