# SPDX-License-Identifier: Apache-2.0
"""Strategy ``noauth``: everybody is believed.

A token is ``user:project``; the user ``admin`` is an administrator, any
other a member. Without a token the caller is an administrator. Where the
token names no project, it is the one in the URL, else the configured one
that domains without an owner belong to.
"""

from typing import Any

from oslo_config import cfg

from stillframe import context
from stillframe.api import request
from stillframe.api import routing

ADMIN = 'admin'
# What clients built on keystoneauth send when told to use no
# authentication (``--os-auth-type none``).
_NO_TOKEN = 'notused'  # noqa: S105
ADMIN_ROLES = ['admin', 'member', 'reader']
MEMBER_ROLES = ['member', 'reader']


def wrap(app: Any, conf: cfg.ConfigOpts) -> Any:
    """Put the strategy in front of an application."""
    default_project = conf.compute.default_project_id

    def middleware(environ, start_response):
        token = environ.get('HTTP_X_AUTH_TOKEN', '')
        user, _, project = (
            '' if token == _NO_TOKEN else token).partition(':')
        user = user or ADMIN
        project = (project or routing.project_in(environ['PATH_INFO'])
                   or default_project)
        is_admin = user == ADMIN
        environ[request.CONTEXT] = context.RequestContext(
            user_id=user, project_id=project, is_admin=is_admin,
            roles=ADMIN_ROLES if is_admin else MEMBER_ROLES,
            request_id=environ[request.REQUEST_ID],
            global_request_id=environ.get(request.GLOBAL_REQUEST_ID))
        return app(environ, start_response)

    return middleware
