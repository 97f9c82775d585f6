# SPDX-License-Identifier: Apache-2.0
"""What can go wrong in the ramdisk.

Each text is a sentence for the node's owner: it goes into the node's
``last_error``, so it holds no password, no credential and no URL.
"""


class AgentError(Exception):
    """The order was not carried out; the text says why."""


class BadOrder(AgentError):
    """The order cannot be understood, or asks for what there is not."""


class NoDisk(AgentError):
    """No disk is the one that is meant."""


class AmbiguousDisk(AgentError):
    """More than one disk could be the one that is meant."""


class WrongDisk(AgentError):
    """The disk that the hints choose is not the one deployed to."""


class ReadFailed(AgentError):
    """The disk could not be read."""


class SendFailed(AgentError):
    """The image did not arrive, or nobody knows whether it did."""


class SendRefused(SendFailed):
    """The receiver said no.

    :ivar status: the HTTP status that it said it with.
    """

    def __init__(self, message: str, status: int):
        super().__init__(message)
        self.status = status


class Stopped(AgentError):
    """It was told to stop."""
