# SPDX-License-Identifier: Apache-2.0
"""Strategy ``http_basic``: names and passwords from an htpasswd file."""

import hashlib
import hmac
import os
import secrets
import threading
from typing import Any

from oslo_config import cfg
from oslo_log import log
from oslo_middleware import basic_auth
from oslo_middleware import exceptions as middleware_exceptions
import webob

from stillframe import context
from stillframe import exceptions
from stillframe.api import errors
from stillframe.api import request
from stillframe.api import routing
from stillframe.api.auth import noauth

LOG = log.getLogger(__name__)

_CHALLENGE = 'Basic realm="Stillframe"'

# Bytes of a password that bcrypt looks at, and htpasswd did. Newer versions
# of the library take no longer one, and do not say so in time.
_LOOKED_AT = 72

# How many checked passwords are remembered; far more than the users that a
# file of this kind has.
_REMEMBERED = 256


class Passwords:
    """Checks passwords against the file.

    bcrypt takes tens of milliseconds by design. A password that was right
    is remembered, as a digest under a key that only this process has,
    until the file changes.

    :raises ConfigError: the file cannot be read, or is no htpasswd file
        with bcrypt.
    """

    def __init__(self, path: str):
        try:
            basic_auth.validate_auth_file(path)
        except (middleware_exceptions.ConfigInvalid,
                webob.exc.HTTPBadRequest) as exc:
            raise exceptions.ConfigError(
                reason='[api]auth_strategy is http_basic, and the file of '
                f'users, [http_basic]user_file {path}, cannot be read, or '
                'has a line that is no user with a password in bcrypt. '
                f'Write it with: htpasswd -nbB NAME PASSWORD >> {path}'
            ) from exc
        self._path = path
        self._key = secrets.token_bytes(32)
        self._lock = threading.Lock()
        self._stamp: tuple[int, ...] | None = None
        self._right: set[bytes] = set()

    def are_right(self, user: str, password: bytes) -> bool:
        """Tell whether the file has this user with this password.

        :raises webob.exc.HTTPBadRequest: the file cannot be read.
        """
        digest = hmac.digest(
            self._key, user.encode() + b':' + password, hashlib.sha256)
        stamp = self._file_stamp()
        with self._lock:
            if stamp != self._stamp:
                self._right.clear()
                self._stamp = stamp
            if digest in self._right:
                return True
        try:
            basic_auth.authenticate(self._path, user, password[:_LOOKED_AT])
        except webob.exc.HTTPUnauthorized:
            return False
        with self._lock:
            if len(self._right) >= _REMEMBERED:
                self._right.clear()
            if stamp == self._stamp:
                self._right.add(digest)
        return True

    def _file_stamp(self) -> tuple[int, ...] | None:
        try:
            found = os.stat(self._path)
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino


def wrap(app: Any, conf: cfg.ConfigOpts) -> Any:
    """Put the strategy in front of an application.

    :raises ConfigError: the file cannot be read.
    """
    passwords = Passwords(conf.http_basic.user_file)
    admins = frozenset(conf.http_basic.admin_users)

    def middleware(environ, start_response):
        try:
            user, password = basic_auth.parse_token(
                basic_auth.parse_header(environ))
            known = passwords.are_right(user, password)
        except webob.exc.HTTPUnauthorized:
            known = False
        except webob.exc.HTTPBadRequest as exc:
            return errors.response(
                errors.BadCredentials(
                    exc.detail or 'The Authorization header is malformed.'),
                environ['PATH_INFO'])(environ, start_response)
        if not known:
            return errors.response(
                errors.Unauthorized(_CHALLENGE), environ['PATH_INFO'])(
                    environ, start_response)
        is_admin = user in admins
        environ[request.CONTEXT] = context.RequestContext(
            user_id=user, user_name=user, is_admin=is_admin,
            # There is nothing else by which an administrator could say
            # which project is meant.
            project_id=(is_admin and routing.project_in(
                environ['PATH_INFO'])) or user,
            roles=(noauth.ADMIN_ROLES if is_admin
                   else noauth.MEMBER_ROLES),
            request_id=environ[request.REQUEST_ID],
            global_request_id=environ.get(request.GLOBAL_REQUEST_ID))
        return app(environ, start_response)

    return middleware
