# SPDX-License-Identifier: Apache-2.0
"""Receiving the images that ramdisks send: a WebDAV server of one's own.

Each snapshot gets a name and a password that are good for one image and die
with it. An image is written aside, counted and digested while it arrives,
and only shown when it is there as a whole; see :class:`Receiver`.
"""

from stillframe.conductor.receiver.receiver import Receiver
from stillframe.conductor.receiver.tickets import Arrival
from stillframe.conductor.receiver.tickets import Ticket
from stillframe.conductor.receiver.transfers import Received

__all__ = ['Arrival', 'Received', 'Receiver', 'Ticket']
