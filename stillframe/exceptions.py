# SPDX-License-Identifier: Apache-2.0
"""Errors that know their HTTP status, a stable code and their sentence.

A message says what happened, to what, and what to do. It may be read by any
user of the server: no path, no secret, no name of another tenant in it.
"""


class StillframeError(Exception):
    """Base of our errors.

    :cvar template: the message, filled from keyword arguments.
    :cvar http_status: what the API answers.
    :cvar code: a stable word for programs and for the documentation.
    """

    template = 'An unexpected error happened.'
    http_status = 500
    code = 'stillframe.internal'

    def __init__(self, message: str | None = None, **kwargs: object):
        self.kwargs = kwargs
        super().__init__(message or self.template.format(**kwargs))

    @property
    def message(self) -> str:
        """The sentence for the user."""
        return str(self)


class BadRequest(StillframeError):
    """The request is malformed."""

    template = 'The request is malformed: {reason}'
    http_status = 400
    code = 'stillframe.bad_request'


class Forbidden(StillframeError):
    """The caller may see the thing but not do this to it."""

    template = "Policy doesn't allow {action} to be performed."
    http_status = 403
    code = 'stillframe.forbidden'


class NotFound(StillframeError):
    """There is no such thing, or not for this caller."""

    template = '{what} could not be found.'
    http_status = 404
    code = 'stillframe.not_found'


class ServerNotFound(NotFound):
    """No such server (or another project's)."""

    template = 'Instance {server} could not be found.'
    code = 'stillframe.server_not_found'


class ActionNotFound(NotFound):
    """The server has no action with that request id."""

    template = 'Action {request_id} not found'
    code = 'stillframe.action_not_found'


class VolumeNotAttached(NotFound):
    """The server has no such volume."""

    template = 'Instance {server} is not attached to volume {volume}.'
    code = 'stillframe.volume_not_attached'


class VolumeUnknown(BadRequest):
    """No server has the volume; Nova answers that with 400."""

    template = ('No server has the volume {volume}. A volume must be '
                'attached for its snapshots to be made or merged here.')
    code = 'stillframe.volume_unknown'


class VolumeMultiAttached(BadRequest):
    """More than one server has the volume; Nova answers that with 400."""

    template = ('The volume {volume} is attached to more than one server, '
                'and cannot be snapshotted by any of them.')
    code = 'stillframe.volume_multi_attached'


class WrongVolumeState(BadRequest):
    """The server's state forbids it; Nova answers that with 400."""

    template = ('Instance {server} in {attr} {state}. Cannot {method} while '
                'the instance is in this state.')
    code = 'stillframe.wrong_volume_state'


class Conflict(StillframeError):
    """The thing is in the wrong state."""

    template = 'The request conflicts with the present state: {reason}'
    http_status = 409
    code = 'stillframe.conflict'


class WrongState(Conflict):
    """The server is in a state that refuses the request.

    The wording is Nova's; clients match on it.
    """

    template = ("Cannot '{action}' instance {server} while it is in "
                "{attr} {state}")
    code = 'stillframe.wrong_state'


class FreezeEndedEarly(WrongState):
    """There is nothing to unquiesce: the freeze is over already."""

    template = ("Cannot 'unquiesce' instance {server} while it is in "
                "vm_state {state}: its freeze ended early at {ended_at} "
                "({reason}). A snapshot that was not complete by then is "
                "not consistent: quiesce the server and take it again.")
    code = 'stillframe.freeze_ended_early'


class ImageUnderWay(WrongState):
    """An image of the server is being made, for which it is held."""

    template = WrongState.template + ': {wait}'
    code = 'stillframe.image_under_way'


class VolumeBusy(Conflict):
    """A volume takes one snapshot request at a time."""

    template = ('The volume {volume} takes one snapshot request at a time: '
                '{reason}. Try again when that is over.')
    code = 'stillframe.volume_busy'


class VolumeBeingTold(VolumeBusy):
    """All that is open is that Cinder acknowledges the last outcome."""


class HostDown(Conflict):
    """The worker that would do it is not there.

    Which host that is, only administrators may know; the server and the
    list of services show it to them.
    """

    template = ("Cannot '{action}' instance {server}: the compute worker "
                "of its host is down (last heard of {last_seen}). Try again "
                "when an administrator has started stillframe-compute there.")
    code = 'stillframe.host_down'


class NodeNotFound(NotFound):
    """No such node."""

    template = 'Node {node} could not be found.'
    code = 'stillframe.node_not_found'


class PortNotFound(NotFound):
    """No such port of a node."""

    template = 'Port {port} could not be found.'
    code = 'stillframe.port_not_found'


class NodeLocked(Conflict):
    """A conductor is at work on the node; the wording is Ironic's."""

    template = ('Node {node} is locked by host {host}, please retry after '
                'the current operation is completed.')
    code = 'stillframe.node_locked'


class PortInUse(Conflict):
    """The ramdisk of the port's node may be running, and is known by it."""

    template = ('Cannot {action} port {port} while node {node} is in state '
                '"{state}": its ramdisk is known by the addresses of its '
                'ports. Abort the snapshot, or wait until it is over.')
    code = 'stillframe.port_in_use'


class NodeChanged(Conflict):
    """Somebody else changed the node since it was read."""

    template = ('Node {node} was changed by another request meanwhile, and '
                'this change was not made. Read the node and try again.')
    code = 'stillframe.node_changed'


class NodeAssociated(Conflict):
    """The node has an instance, and cannot go while it has."""

    template = 'Node {node} is associated with instance {instance}.'
    code = 'stillframe.node_associated'


class AlreadyExists(Conflict):
    """A name that must be unique is taken; the wording is Ironic's."""

    template = 'A {what} already exists.'
    code = 'stillframe.already_exists'


class WrongNodeState(BadRequest):
    """The node's provision state refuses it; the wording is Ironic's."""

    template = ('The requested action "{action}" can not be performed on '
                'node "{node}" while it is in state "{state}".')
    code = 'stillframe.wrong_node_state'


class NodeInMaintenance(BadRequest):
    """The node is in maintenance; the wording is Ironic's."""

    template = ("The {action} operation can't be performed on node {node} "
                "because it's in maintenance mode.")
    code = 'stillframe.node_in_maintenance'


class ServiceUnavailable(StillframeError):
    """A service that we need does not answer."""

    template = ('{service} does not answer, so {what} was not started. '
                'Nothing was changed; try again in a moment.')
    http_status = 503
    code = 'stillframe.service_unavailable'


class CommitUncertain(ServiceUnavailable):
    """The database broke off when a transaction was to be committed.

    It may have been, with only the answer lost.
    """

    template = ('{service} broke off while it wrote {what} down, so it is not '
                'known whether that was done. Look at the state before you '
                'try again; what was begun and is not gone on with is settled '
                'by itself.')
    code = 'stillframe.commit_uncertain'


class ConfigError(StillframeError):
    """A process cannot start with its configuration as it is."""

    template = 'The configuration cannot be used: {reason}'
    code = 'stillframe.config'


class CannotListen(StillframeError):
    """The API's address is taken, or not this machine's."""

    template = ('Nothing can listen on {host} port {port} ([api]host, '
                '[api]port): {reason}')
    code = 'stillframe.cannot_listen'
