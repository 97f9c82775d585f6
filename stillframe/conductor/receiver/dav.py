# SPDX-License-Identifier: Apache-2.0
"""WebDAV around the upload, by wsgidav, for clients that mount it.

A mount sees one folder with one file in it: the image that it sent, once it
is there as a whole. PUT does not come here; see
:mod:`stillframe.conductor.receiver.app`.

Locks are granted, since davfs2 will not work without unless told so. They
hold nobody off: a name has one user, and who locks anew after a crash is
that user.
"""

from collections.abc import Callable
import os
from typing import Any

from wsgidav import dav_error
from wsgidav import dav_provider
from wsgidav import wsgidav_app

from stillframe.conductor.receiver import errors
from stillframe.conductor.receiver import transfers

#: Where a request finds the transfer whose credential it has shown.
TRANSFER = 'stillframe.transfer'
#: The folder in which every transfer is one file.
FOLDER = 'transfers'


def etag(transfer: transfers.Transfer) -> str:
    """Give the tag of what is shown of a transfer."""
    return transfer.sha256 or 'empty'


class _Image(dav_provider.DAVNonCollection):
    """The image that arrived; or an empty file that was locked."""

    def __init__(self, path: str, environ: dict,
                 transfer: transfers.Transfer, file: str,
                 remove: Callable[[transfers.Transfer], None]):
        super().__init__(path, environ)
        self._transfer = transfer
        self._remove = remove
        self._file = file if transfer.sha256 else os.devnull
        self._time = os.stat(self._file).st_mtime

    def get_content_length(self) -> int:
        return self._transfer.size

    def get_content_type(self) -> str:
        return 'application/octet-stream'

    def get_creation_date(self) -> float:
        return self._time

    def get_last_modified(self) -> float:
        return self._time

    def get_etag(self) -> str:
        return etag(self._transfer)

    def support_etag(self) -> bool:
        return True

    def support_ranges(self) -> bool:
        return True

    def get_content(self) -> Any:
        return open(self._file, 'rb')

    def delete(self) -> None:
        try:
            self._remove(self._transfer)
        except errors.ReceiverError as exc:
            raise dav_error.DAVError(exc.http_status, exc.message) from exc
        self.remove_all_locks(recursive=True)


class _Folder(dav_provider.DAVCollection):
    """A folder with at most one member; nothing can be made in it."""

    def __init__(self, path: str, environ: dict, member: str | None):
        super().__init__(path, environ)
        self._member = member

    def get_member_names(self) -> list[str]:
        return [] if self._member is None else [self._member]

    def get_member(self, name: str) -> Any:
        return self.provider.get_resource_inst(
            f'{self.path.rstrip("/")}/{name}', self.environ)

    def create_empty_resource(self, name: str) -> Any:
        """Show an empty file of the own name: RFC 4918, section 7.3."""
        transfer = self.environ[TRANSFER]
        if self.path.strip('/') != FOLDER or name != transfer.name:
            raise dav_error.DAVError(dav_error.HTTP_FORBIDDEN)
        transfer.locked = True
        return self.get_member(name)


class Provider(dav_provider.DAVProvider):
    """Finds resources for the transfer that a request belongs to.

    :param file: gives the path of the image of a name.
    :param remove: removes the image of a transfer.
    """

    def __init__(self, file: Callable[[str], os.PathLike],
                 remove: Callable[[transfers.Transfer], None]):
        super().__init__()
        self._file = file
        self._remove = remove

    def get_resource_inst(self, path: str, environ: dict) -> Any:
        transfer = environ[TRANSFER]
        shown = transfer.sha256 is not None or transfer.locked
        match path.strip('/').split('/'):
            case ['']:
                return _Folder('/', environ, FOLDER)
            case [name] if name == FOLDER:
                return _Folder(f'/{FOLDER}', environ,
                               transfer.name if shown else None)
            case [folder, name] if (folder, name) == (
                    FOLDER, transfer.name) and shown:
                try:
                    return _Image(f'/{FOLDER}/{name}', environ, transfer,
                                  os.fspath(self._file(name)), self._remove)
                except FileNotFoundError:
                    # It was replaced or removed just now.
                    return None
        return None

    def unlock(self, name: str) -> None:
        """Forget the locks on a name."""
        self.lock_manager.remove_all_locks_from_url(f'/{FOLDER}/{name}')


def application(provider: Provider) -> Any:
    """Make the WSGI application around a provider; it checks nobody."""
    return wsgidav_app.WsgiDAVApp({
        'provider_mapping': {'/': provider},
        'middleware_stack': ['wsgidav.error_printer.ErrorPrinter',
                             'wsgidav.request_resolver.RequestResolver'],
        'property_manager': None, 'lock_storage': True, 'verbose': 1,
        'block_size': 1 << 20,
        # It is not asked who may: that was found out before.
        'http_authenticator': {'accept_basic': False},
        'logging': {'enable': False}, 'suppress_version_info': True})
