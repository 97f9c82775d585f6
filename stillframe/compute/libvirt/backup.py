# SPDX-License-Identifier: Apache-2.0
"""A point in time of a running guest's disks, by libvirt's backup job.

From the moment the job begins, what the guest overwrites is first copied to
a scratch file, so that the export goes on to show all disks as they were at
one and the same instant. The guest's own chain is not touched. The job is
over when it is aborted; that is its normal end.
"""

from collections.abc import Callable
import pathlib
from xml.etree import ElementTree
from xml.sax import saxutils

import libvirt

from stillframe.compute.libvirt import errors

_STARVED = [libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PAUSED_IOERROR]
_NO_SPACE = libvirt.VIR_DOMAIN_DISK_ERROR_NO_SPACE
# Of the path of a UNIX socket, without the byte at its end.
_LONGEST_SOCKET = 107


class SocketTooLong(Exception):
    """The path for the export is longer than the kernel allows."""


class Backup:
    """The backup job of one domain that belongs to one folder.

    Raises :class:`~stillframe.compute.libvirt.troubles.AgentTrouble` for
    what libvirt has to say.
    """

    def __init__(self, lookup: Callable[[], libvirt.virDomain],
                 folder: pathlib.Path):
        """Take how to find the domain, and a folder of its own.

        :param folder: QEMU can make files in it.
        :raises SocketTooLong: see there.
        """
        self._lookup = lookup
        self._folder = folder
        self.socket = str(folder / 'nbd')
        if len(self.socket.encode()) > _LONGEST_SOCKET:
            raise SocketTooLong(
                f'The path {self.socket} is too long for a socket; choose a '
                'shorter [images]scratch_path.')

    def begin(self, targets: list[str], others: list[str]) -> None:
        """Take the point in time, and export it.

        :param targets: the disks, each exported under its own name.
        :param others: all other disks of the domain.
        """
        try:
            self._lookup().backupBegin(self._xml(targets, others), None)
        except libvirt.libvirtError as exc:
            raise errors.trouble(exc) from exc

    def _xml(self, targets: list[str], others: list[str]) -> str:
        quote = saxutils.quoteattr
        disks = ''.join(
            f'<disk name={quote(name)} backup="yes" type="file">'
            '<driver type="qcow2"/>'
            f'<scratch file={quote(str(self._folder / name))}/></disk>'
            for name in targets)
        disks += ''.join(f'<disk name={quote(name)} backup="no"/>'
                         for name in others)
        return ('<domainbackup mode="pull">'
                f'<server transport="unix" socket={quote(self.socket)}/>'
                f'<disks>{disks}</disks></domainbackup>')

    def there(self) -> bool:
        """Tell whether the job of this folder runs, and no other's."""
        try:
            text = self._lookup().backupGetXMLDesc(0)
        except libvirt.libvirtError as exc:
            if exc.get_error_code() in (
                    libvirt.VIR_ERR_NO_DOMAIN_BACKUP,
                    libvirt.VIR_ERR_NO_DOMAIN,
                    libvirt.VIR_ERR_OPERATION_INVALID):
                return False
            raise errors.trouble(exc) from exc
        server = ElementTree.fromstring(text).find('server')  # noqa: S314
        return server is not None and server.get('socket') == self.socket

    def end(self) -> None:
        """End the job, if it is there; the scratch files can go then."""
        if not self.there():
            return
        try:
            self._lookup().abortJob()
        except libvirt.libvirtError as exc:
            if exc.get_error_code() in (libvirt.VIR_ERR_NO_DOMAIN,
                                        libvirt.VIR_ERR_OPERATION_INVALID):
                # Gone with the guest in this very moment.
                return
            raise errors.trouble(exc) from exc

    def starving(self) -> bool:
        """Tell whether the guest was paused since a write found no room."""
        try:
            domain = self._lookup()
            return (domain.state() == _STARVED
                    and _NO_SPACE in domain.diskErrors().values())
        except libvirt.libvirtError as exc:
            raise errors.trouble(exc) from exc

    def relieve(self) -> None:
        """Let a starving guest go on, when the job is over.

        QEMU keeps the write that found no room and repeats it, so nothing
        is lost.
        """
        try:
            self._lookup().resume()
        except libvirt.libvirtError as exc:
            raise errors.trouble(exc) from exc
