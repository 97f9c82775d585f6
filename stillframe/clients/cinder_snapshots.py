# SPDX-License-Identifier: Apache-2.0
"""Snapshots in Cinder that an image of a server refers to.

They are made with the token of the user who asks for the image, so that
they belong to the user's project; what is left of a failed image is removed
with credentials of our own, since tokens are kept nowhere.
"""

import dataclasses
from typing import Any

import cinderclient.client
from keystoneauth1 import loading
from keystoneauth1 import service_token
from keystoneauth1 import token_endpoint

from stillframe.clients import cinder

#: What Cinder calls a snapshot that can be used, and one that never will.
AVAILABLE = 'available'
_IN_THE_WORKS = 'creating'


@dataclasses.dataclass(frozen=True)
class User:
    """In whose name snapshots are made.

    :ivar project: id of the project that the token is for; Cinder wants it
        in the address.
    """

    token: str = dataclasses.field(repr=False)
    project: str | None


class SnapshotFailed(Exception):
    """Cinder could not make a snapshot."""


class Snapshots(cinder.Cinder):
    """Volumes and snapshots of one Cinder.

    Every method raises :class:`cinder.Unreachable` when Cinder does not
    answer or will not let us, and :class:`cinder.Refused` when it says no.
    """

    def _of_user(self, user: User | None) -> Any:
        """Give a client in the name of a user, if there is one."""
        group = self._conf.cinder
        if user is None or group.auth_type in cinder._NO_KEYSTONE:
            return self._client
        auth: Any = loading.load_auth_from_conf_options(
            self._conf, cinder.GROUP)
        url = self._endpoint_of(user)
        session = loading.load_session_from_conf_options(
            self._conf, cinder.GROUP,
            auth=service_token.ServiceTokenAuthWrapper(
                user_auth=token_endpoint.Token(url, user.token),
                service_auth=auth))
        return cinderclient.client.Client(
            '3', session=session, user_agent='stillframe',
            endpoint_override=url)

    def _endpoint_of(self, user: User) -> str:
        """Give the address of Cinder for a user's project.

        The catalog gives ours, which has our project's id in it unless
        Cinder can do without.
        """
        url = self.endpoint()
        ours = self._client.client.get_project_id()
        return url.replace(ours, user.project) if (
            ours and user.project) else url

    def size(self, volume_id: str) -> int | None:
        """Give the size of a volume in GiB; None when there is no such."""
        try:
            with self._told():
                return int(self._client.volumes.get(volume_id).size)
        except cinder.Unknown:
            return None

    def create(self, volume_id: str, name: str, user: User | None) -> str:
        """Begin a snapshot of a volume that is in use; give its id."""
        with self._told():
            return self._of_user(user).volume_snapshots.create(
                volume_id, force=True, name=name,
                description='Made for an image of a server.').id

    def is_available(self, snapshot_id: str) -> bool:
        """Tell whether a snapshot can be used; False while it is made.

        :raises SnapshotFailed: it never will be.
        """
        try:
            with self._told():
                status = self._client.volume_snapshots.get(
                    snapshot_id).status
        except cinder.Unknown:
            status = 'gone'
        if status == AVAILABLE:
            return True
        if status != _IN_THE_WORKS:
            raise SnapshotFailed(f'snapshot {snapshot_id} is {status}')
        return False

    def delete_all(self, volume_id: str, name: str) -> bool:
        """Remove the snapshots of a volume with a name.

        :return: whether none is left; those that Cinder is removing, or
            still making, take a while.
        """
        with self._told():
            found = self._client.volume_snapshots.list(
                search_opts={'all_tenants': 1, 'volume_id': volume_id,
                             'name': name})
        for one in found:
            if one.status in ('deleting', _IN_THE_WORKS):
                continue
            try:
                with self._told():
                    self._client.volume_snapshots.delete(one.id)
            except cinder.Unknown:
                continue
        return not found
