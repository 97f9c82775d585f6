# SPDX-License-Identifier: Apache-2.0
"""Middleware: an id for each request, and no exception past this point."""

import re
from typing import Any
import uuid

from oslo_log import log

from stillframe import exceptions
from stillframe.api import errors
from stillframe.api import request

LOG = log.getLogger(__name__)

# An id from outside goes to the logs; it must look like one.
_GLOBAL_ID = re.compile(
    r'req-[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}', re.ASCII)


def wrap(app: Any) -> Any:
    """Give each request an id and put it into the response.

    The id that a client sends becomes the global request id. Three headers
    carry ours: openstacksdk, novaclient and Ironic's clients read one each.
    """
    def middleware(environ, start_response):
        request_id = f'req-{uuid.uuid4()}'
        environ[request.REQUEST_ID] = request_id
        outer_id = environ.get('HTTP_X_OPENSTACK_REQUEST_ID')
        if outer_id is not None and _GLOBAL_ID.fullmatch(outer_id):
            environ[request.GLOBAL_REQUEST_ID] = outer_id

        def start(status, headers, exc_info=None):
            headers.append(('x-openstack-request-id', request_id))
            headers.append(('x-compute-request-id', request_id))
            headers.append(('openstack-request-id', request_id))
            return start_response(status, headers, exc_info)

        try:
            return app(environ, start)
        except Exception:  # noqa: BLE001 - the last resort; it is logged
            LOG.exception('Unexpected error in %s %s (%s)',
                          environ.get('REQUEST_METHOD'),
                          environ.get('PATH_INFO'), request_id)
            return errors.response(
                exceptions.StillframeError(), environ.get('PATH_INFO', ''))(
                    environ, start)

    return middleware
