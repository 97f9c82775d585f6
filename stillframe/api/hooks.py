# SPDX-License-Identifier: Apache-2.0
"""What is done around each controller."""

import urllib.parse

from oslo_db import exception as db_exc
from oslo_log import log
from pecan import hooks
import webob.exc

from stillframe import exceptions
from stillframe.api import baremetal_versions
from stillframe.api import dialects
from stillframe.api import errors
from stillframe.api import microversions
from stillframe.api import request
from stillframe.api import routing

LOG = log.getLogger(__name__)


class UrlHook(hooks.PecanHook):
    """Refuses URLs that are not UTF-8.

    Before pecan stumbles on one, which logs a traceback: anybody could
    write the log full with that.
    """

    priority = 2

    def on_route(self, state):
        """Look at the URL.

        :raises UnicodeDecodeError: it is not UTF-8.
        """
        environ = state.request.environ
        environ['PATH_INFO'].encode('latin-1').decode()
        query = environ.get('QUERY_STRING', '')
        if '%' in query or not query.isascii():
            urllib.parse.unquote_to_bytes(query.encode('latin-1')).decode()


class ContextHook(hooks.PecanHook):
    """Says of which project and mount the request is."""

    priority = 10

    def on_route(self, state):
        """Fill the environment; check the project id in the URL."""
        req = state.request
        environ = req.environ
        path = req.path_info
        dialect = dialects.of(path)
        if dialect is dialects.Dialect.NONE:
            return
        if '\0' in path:
            # PostgreSQL has no such text, and would not even look for it.
            raise errors.NoSuchPath(
                'The resource could not be found: its path has a null '
                'character in it.')
        if dialect is dialects.Dialect.BAREMETAL:
            environ[request.SEGMENTS] = routing.segments(path)
            environ[request.LEGACY] = False
            return
        if routing.is_public(path):
            return
        mount, project, rest = routing.split(path)
        environ[request.LEGACY] = routing.COMPUTE_MOUNTS[mount]
        environ[request.URL_PROJECT] = project
        environ[request.SEGMENTS] = rest
        ours = environ[request.CONTEXT].project_id
        if project is not None and project != ours:
            raise exceptions.BadRequest(
                f"Malformed request URL: URL's project_id '{project}' "
                f"doesn't match Context's project_id '{ours}'")


class MicroversionHook(hooks.PecanHook):
    """Finds out the microversion, and says it in the response."""

    priority = 5

    def on_route(self, state):
        """Parse the headers of a request to a mount that has versions."""
        environ = state.request.environ
        path = state.request.path_info
        if dialects.of(path) is dialects.Dialect.BAREMETAL:
            environ[request.MINOR] = baremetal_versions.requested(
                environ.get('HTTP_OPENSTACK_API_VERSION'),
                environ.get('HTTP_X_OPENSTACK_IRONIC_API_VERSION'))
            return
        if routing.is_public(path):
            return
        if routing.COMPUTE_MOUNTS[routing.split(path)[0]]:
            environ[request.MINOR] = microversions.MIN
            return
        environ[request.VERSIONED] = True
        environ[request.MINOR] = microversions.requested(
            environ.get('HTTP_OPENSTACK_API_VERSION'),
            environ.get('HTTP_X_OPENSTACK_NOVA_API_VERSION'))

    def after(self, state):
        """Add the headers."""
        environ = state.request.environ
        headers = state.response.headers
        if request.VERSIONED not in environ:
            # Ironic has no such headers on paths that do not exist.
            if state.controller is not None and dialects.of(
                    environ['PATH_INFO']) is dialects.Dialect.BAREMETAL:
                headers.update(baremetal_versions.headers(
                    environ[request.MINOR]))
            return
        headers['Vary'] = microversions.VARY
        minor = environ.get(request.MINOR)
        if minor is not None:
            version = microversions.text(minor)
            headers[microversions.HEADER] = (
                f'{microversions.SERVICE_TYPE} {version}')
            headers[microversions.LEGACY_HEADER] = version


class ErrorHook(hooks.PecanHook):
    """Turns exceptions into error documents."""

    priority = 1

    def on_error(self, state, exc):
        """Give the response for an exception."""
        path = state.request.environ['PATH_INFO']
        if isinstance(exc, exceptions.StillframeError):
            if exc.http_status >= 500:
                LOG.warning('%s %s: %s', state.request.method, path, exc,
                            exc_info=exc.http_status == 500)
            return errors.response(exc, path)
        if isinstance(exc, db_exc.DBDeadlock):
            # It was tried again already, by the database layer.
            return errors.response(exceptions.Conflict(
                reason='other requests keep the server busy; try again'),
                path)
        if isinstance(exc, UnicodeError | webob.exc.HTTPBadRequest):
            # pecan makes the second one of the first.
            return errors.response(exceptions.BadRequest(
                'Malformed request URL: it is not UTF-8.'), path)
        LOG.error('Unexpected error in %s %s', state.request.method, path,
                  exc_info=exc)
        return errors.response(exceptions.StillframeError(), path)
