# SPDX-License-Identifier: Apache-2.0
"""Strategy ``keystone``: tokens, checked by keystonemiddleware."""

from typing import Any

from keystonemiddleware import auth_token
from oslo_config import cfg

from stillframe import context
from stillframe import exceptions
from stillframe.api import request


def wrap(app: Any, conf: cfg.ConfigOpts) -> Any:
    """Put the strategy in front of an application.

    The middleware answers 401 by itself, and takes away the identity
    headers that a caller sent.

    :raises ConfigError: Keystone cannot be asked. The middleware would find
        that out at the first request, and at each.
    """
    def with_context(environ, start_response):
        ctxt = context.RequestContext.from_environ(
            environ, request_id=environ[request.REQUEST_ID],
            global_request_id=environ.get(request.GLOBAL_REQUEST_ID))
        # It would travel to the workers, which have no use for it.
        ctxt.auth_token = None
        ctxt.service_token = None
        environ[request.CONTEXT] = ctxt
        return app(environ, start_response)

    made = auth_token.AuthProtocol(with_context,
                                   {'oslo_config_config': conf})
    group = conf.keystone_authtoken.auth_section or 'keystone_authtoken'
    if not conf[group].auth_type:
        raise exceptions.ConfigError(
            reason=f'[api]auth_strategy is keystone, and [{group}]auth_type '
            'is not set. Give that group the account of this service '
            '(auth_type = password, auth_url, username, password, '
            'project_name and the two domains), or choose another '
            'auth_strategy.')
    return made
