# SPDX-License-Identifier: Apache-2.0
"""The freeze's lease in the domain's own metadata.

A frozen guest may leave its host: by live migration, or saved to a file and
restored later. The journal stays behind, but metadata of a live domain goes
with it, so the lease is written there too. The host where the guest turns
up takes the freeze over and keeps its deadline.

Clocks of two hosts have only the wall clock in common, and that may be
wrong; whoever takes over caps what remains by its own ceiling.
"""

import dataclasses
import time
from xml.etree import ElementTree
from xml.sax import saxutils

from stillframe.compute import clock

URI = 'urn:stillframe:freeze-lease:1'
KEY = 'stillframe'
_LONGEST = 4096


@dataclasses.dataclass(frozen=True)
class Lease:
    """A freeze as its domain carries it.

    :ivar request_id: id of the freeze (of its quiesce request).
    :ivar deadline: wall clock.
    :ivar timeout: seconds that were granted.
    """

    request_id: str
    deadline: str
    timeout: float

    def remaining(self, ceiling: float) -> float:
        """Give the seconds until the deadline, 0 at least.

        Never more than the ceiling, nor than was granted at first: a clock
        that is slow here must not make the freeze longer than it was to be.
        """
        try:
            left = clock.wall_seconds(self.deadline) - time.time()
        except ValueError:
            return 0.0
        return max(0.0, min(left, ceiling, self.timeout))


def to_xml(lease: Lease) -> str:
    """Write the element that libvirt stores."""
    return (f'<lease freeze={saxutils.quoteattr(lease.request_id)} '
            f'deadline={saxutils.quoteattr(lease.deadline)} '
            f'timeout="{lease.timeout:g}"/>')


def from_xml(text: str) -> Lease | None:
    """Read what :func:`to_xml` wrote; None when it is anything else."""
    if len(text) > _LONGEST or '<!DOCTYPE' in text:
        return None
    try:
        element = ElementTree.fromstring(text)  # noqa: S314
        return Lease(request_id=element.attrib['freeze'][:64],
                     deadline=element.attrib['deadline'],
                     timeout=float(element.attrib['timeout']))
    except (ElementTree.ParseError, KeyError, ValueError):
        return None
