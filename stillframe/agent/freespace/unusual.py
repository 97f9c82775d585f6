# SPDX-License-Identifier: Apache-2.0
"""What makes a file system one whose free space is left alone."""


class Unusual(Exception):
    """It is not as it has to be; the text says in what, as a clause."""


def demand(condition: bool, otherwise: str) -> None:
    """Go on only if something is so.

    :raises Unusual: it is not.
    """
    if not condition:
        raise Unusual(otherwise)
