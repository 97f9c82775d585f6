# SPDX-License-Identifier: Apache-2.0
"""Why an image was not received, or not taken for what it should be.

The texts are answered to the agent, which reports them, and end in the
history of the node: numbers, but no path and no credential.
"""

from stillframe import exceptions


class ReceiverError(exceptions.StillframeError):
    """Base of the errors of the receiver."""

    template = 'The image was not received: {reason}'
    code = 'stillframe.not_received'


class CannotReceive(ReceiverError):
    """The receiver cannot work with its configuration or its disk."""

    template = ('This conductor cannot receive images: {reason}. See '
                '[receiver] in its configuration.')
    code = 'stillframe.cannot_receive'


class UnknownTransfer(ReceiverError):
    """No transfer was opened for the snapshot, or it is closed."""

    template = ('No transfer is open for snapshot {snapshot}: it was never '
                'opened, or it is over.')
    http_status = 404
    code = 'stillframe.unknown_transfer'


class Busy(ReceiverError):
    """The name is being received already."""

    template = ('This image is being received already, and its last byte '
                'came {age:.0f} s ago. Try again when that upload has ended.')
    http_status = 409
    code = 'stillframe.transfer_busy'


class Finished(ReceiverError):
    """The transfer takes no more data."""

    template = ('This image is complete and is being verified; it takes no '
                'more data.')
    http_status = 409
    code = 'stillframe.transfer_finished'


class SizeUnknown(ReceiverError):
    """An upload neither says its length nor bounds it."""

    template = ('The size of the image is needed before its first byte: '
                'give a Content-Length, or send it chunked with the most '
                'that it can become in X-Stillframe-Limit.')
    http_status = 411
    code = 'stillframe.size_unknown'


class TooLarge(ReceiverError):
    """More is sent than was announced."""

    template = ('The image is too large: {size} bytes, where at most '
                '{limit} were announced.')
    http_status = 413
    code = 'stillframe.transfer_too_large'


class StoreFull(ReceiverError):
    """The intermediate store has no room for it."""

    template = ('The conductor has no room for the image: it needs {needed} '
                'bytes, and {free} are free beside the reserve. Make room '
                'in its [receiver]path, or take the snapshot compressed or '
                'with free space skipped.')
    http_status = 507
    code = 'stillframe.transfer_store_full'


class StoreFailed(ReceiverError):
    """The intermediate store does not work."""

    template = 'The conductor could not store the image: {reason}.'
    http_status = 500
    code = 'stillframe.transfer_store_failed'


class Truncated(ReceiverError):
    """The connection ended before the image did."""

    template = ('The upload broke off after {received} bytes{of}: the '
                'connection was closed or reset, or was silent for too '
                'long. Nothing of it is kept.')
    http_status = 400
    code = 'stillframe.transfer_truncated'


class Malformed(ReceiverError):
    """The body is not HTTP as it has to be."""

    template = 'The body of the request is malformed: {reason}.'
    http_status = 400
    code = 'stillframe.transfer_malformed'


class Revoked(ReceiverError):
    """The transfer was closed while it ran."""

    template = 'The transfer was ended by the conductor.'
    http_status = 410
    code = 'stillframe.transfer_revoked'


class NotArrived(ReceiverError):
    """The agent says that it sent an image that is not here."""

    template = ('The agent reports an image that did not arrive: '
                '{reason}.')
    code = 'stillframe.not_arrived'


class Differs(ReceiverError):
    """What arrived is not what the agent sent."""

    template = ('What arrived is not what the agent sent: {what} is '
                '{here} here and {there} there. Take the snapshot again.')
    code = 'stillframe.transfer_differs'


class BadResult(ReceiverError):
    """The agent's record of its work cannot be used."""

    template = 'The agent reported what cannot be used: {reason}.'
    code = 'stillframe.bad_result'


class BadImage(ReceiverError):
    """The image must not, or cannot, be taken."""

    template = 'The image that arrived is not taken: {reason}.'
    code = 'stillframe.bad_image'
