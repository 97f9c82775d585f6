# SPDX-License-Identifier: Apache-2.0
"""What is handed out for a transfer, and what is got back in the end."""

import dataclasses
import pathlib


@dataclasses.dataclass(frozen=True)
class Ticket:
    """What an agent needs to send one image.

    :ivar ca: certificate in PEM that it has to trust; None: what it trusts
        anyway.
    """

    url: str
    username: str
    password: str = dataclasses.field(repr=False)
    ca: str | None


@dataclasses.dataclass(frozen=True)
class Arrival:
    """An image that is here as the agent sent it.

    :ivar path: of the file; it is there until the transfer is closed.
    :ivar size: bytes.
    :ivar sha256: of what was sent; a header that was completed afterwards
        (compressed images) is not in it.
    """

    path: pathlib.Path
    size: int
    sha256: str
