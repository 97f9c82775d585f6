# SPDX-License-Identifier: Apache-2.0
"""A request for a snapshot of a node, checked before it is accepted."""

from collections.abc import Mapping
from typing import Any

from stillframe import context
from stillframe.api.controllers import base
from stillframe.clients import image_refs
from stillframe.drivers import errors as driver_errors

# Seconds for the image store to tell of the image.
_ASK_IMAGE = 10.0


def values(services: base.Services, ctxt: context.RequestContext,
           node: Mapping[Any, Any], options: Mapping[str, Any]
           ) -> dict[str, Any]:
    """Check what a snapshot needs; give the values of its row.

    :param options: image_ref, disk_format, and how to make the image.
    :raises BadRequest: the image cannot be used.
    :raises DriverError: the node cannot be snapshotted.
    :raises ServiceUnavailable: the image store does not answer.
    """
    _check_node(services, node)
    options = dict(options)
    ref = options.pop('image_ref')
    place = image_refs.parse(ref, services.conf)
    if place.kind is image_refs.Kind.IMAGE:
        _check_image(services, ctxt, place.where)
        ref = place.where
    return {'image_ref': ref, 'disk_format': options.pop('disk_format'),
            'options': options, 'request_id': ctxt.request_id,
            'user_id': ctxt.user_id, 'project_id': ctxt.project_id}


def _check_node(services: base.Services, node: Mapping[Any, Any]) -> None:
    try:
        services.drivers.build(node).snapshot.validate(node)
    except (driver_errors.DriverNotFound, driver_errors.NowhereToReport):
        # The conductor has it, and checks it, though the API has not.
        return


def _check_image(services: base.Services, ctxt: context.RequestContext,
                 image_id: str) -> None:
    """See whether an image waits for data.

    Our account sees the images of all projects, so whose it is decides
    whether the caller's snapshot may fill it.

    :raises InvalidImageRef: it does not, or is another project's.
    """
    image = services.images.properties(image_id, _ASK_IMAGE)
    theirs = (image.get('owner') == ctxt.project_id
              or not {'admin', 'service'}.isdisjoint(ctxt.roles))
    if not image or not theirs:
        raise image_refs.InvalidImageRef(
            ref=image_id, reason='there is no such image. Make one without '
            'data first ("openstack image create" without a file).')
    if image.get('status') != 'queued':
        raise image_refs.InvalidImageRef(
            ref=image_id, reason=f'it is {image.get("status")}, and only '
            'an image that is queued takes data.')
