# SPDX-License-Identifier: Apache-2.0
"""The gateway to Cinder: telling it what became of a snapshot.

The bodies are plain data made by pure functions; the gateway sends them by
python-cinderclient on a keystoneauth session with credentials of our own,
so that a token that ran out during a long merge is fetched anew.
"""

from collections.abc import Mapping
import contextlib
import dataclasses
import functools
from typing import Any

from cinderclient import exceptions as cinder_exc
import cinderclient.client
from keystoneauth1 import exceptions as auth_exc
from keystoneauth1 import loading
from keystoneauth1 import service_token
from oslo_config import cfg

from stillframe.states import volume_snapshots as states
from stillframe.states.volume_snapshots import Form

#: Cinder's word for "the compute side has done its part"; no other figure
#: means anything to it.
COMPLETE_PROGRESS = '90%'

# What Cinder makes of it once its driver has gone on.
_PUBLISHED = '100%'
# The statuses of a snapshot that was made, or is being made.
_AVAILABLE = 'available'
_WORKING = frozenset(('creating', 'deleting'))

GROUP = 'cinder'
# Plugins whose token is no token of Keystone's.
_NO_KEYSTONE = frozenset(('none', 'noauth', 'http_basic', 'admin_token'))


class Unreachable(Exception):
    """Cinder did not answer, or not sensibly: try again later."""


class Refused(Exception):
    """Cinder understood and said no (400)."""


class Unknown(Exception):
    """Cinder knows no such snapshot (404)."""


@dataclasses.dataclass(frozen=True)
class Condition:
    """How a snapshot is in Cinder."""

    status: str
    progress: str | None

    @property
    def took_success(self) -> bool | None:
        """Whether Cinder has heard that the snapshot was made.

        None: it has, and gave the snapshot up all the same, so whether it
        knows of the new file cannot be told; or it is not over.
        """
        if self.status == _AVAILABLE:
            return True
        if self.status in _WORKING or self.progress in (
                COMPLETE_PROGRESS, _PUBLISHED):
            return None
        return False

    @property
    def settled(self) -> bool:
        """Whether Cinder is through with it."""
        return self.status not in _WORKING


def completed(form: Form, operation: str,
              formats: Mapping[str, str]) -> dict[str, Any]:
    """Make the update that says that all went well.

    :param form: the dialect.
    :param formats: format of the file that changed, by bare name.
    """
    update: dict[str, Any] = {
        'status': states.COMPLETE[form, operation],
        'progress': COMPLETE_PROGRESS}
    if form is Form.SPEC:
        update['file_format'] = dict(formats)
    return update


def failed(operation: str) -> dict[str, Any]:
    """Make the update that says that it went wrong.

    Without a progress: Cinder keeps the last one, and would take a next
    deletion for done at once when that is the one above.
    """
    return {'status': states.FAILED[operation]}


def begun() -> dict[str, Any]:
    """Make the update that wipes out what an earlier request left.

    Cinder never resets the progress itself. A stock Cinder that finds the
    figure of an earlier success deletes the files of a snapshot whose
    merge has only just begun.
    """
    return {'status': states.COMPLETE[Form.STOCK, states.DELETE],
            'progress': '0%'}


class Cinder:
    """One Cinder, as the configuration names it."""

    def __init__(self, conf: cfg.ConfigOpts):
        self._conf = conf

    @property
    def is_configured(self) -> bool:
        """Whether there is a Cinder to be told anything."""
        group = self._conf.cinder
        return bool(group.auth_type or group.auth_section)

    @functools.cached_property
    def _client(self) -> Any:
        group = self._conf.cinder
        auth: Any = loading.load_auth_from_conf_options(self._conf, GROUP)
        if (group.send_service_token
                and group.auth_type not in _NO_KEYSTONE):
            auth = service_token.ServiceTokenAuthWrapper(
                user_auth=auth, service_auth=auth)
        session = loading.load_session_from_conf_options(
            self._conf, GROUP, auth=auth)
        adapter = loading.load_adapter_from_conf_options(
            self._conf, GROUP, session=session)
        return cinderclient.client.Client(
            '3', session=session, service_type=adapter.service_type,
            service_name=adapter.service_name, interface=adapter.interface,
            region_name=adapter.region_name,
            endpoint_override=adapter.endpoint_override,
            user_agent='stillframe')

    def endpoint(self) -> str:
        """Give the URL that updates go to.

        :raises Unreachable: Keystone does not tell.
        """
        with self._told():
            url = self._client.client.get_endpoint()
        if not url:
            raise Unreachable('the catalog has no endpoint of Cinder')
        return url

    def update(self, snapshot_id: str, update: dict[str, Any]) -> None:
        """Send a status update.

        :param update: made by one of the functions of this module.
        :raises Unreachable: see there.
        :raises Refused: see there.
        :raises Unknown: see there.
        """
        with self._told():
            self._client.volume_snapshots.update_snapshot_status(
                snapshot_id, update)

    def condition(self, snapshot_id: str) -> Condition | None:
        """Look how a snapshot is; None when there is none (any more).

        :raises Unreachable, Refused: see there.
        """
        try:
            with self._told():
                found = self._client.volume_snapshots.get(
                    snapshot_id).to_dict()
        except Unknown:
            return None
        return Condition(found['status'], found.get(
            'os-extended-snapshot-attributes:progress'))

    @contextlib.contextmanager
    def _told(self) -> Any:
        """Turn errors of the client into ours."""
        try:
            yield
        except cinder_exc.BadRequest as exc:
            raise Refused(_brief(exc)) from exc
        except cinder_exc.NotFound as exc:
            raise Unknown(_brief(exc)) from exc
        except (cinder_exc.ClientException,
                auth_exc.ClientException) as exc:
            # 401 and 403 are among these: somebody may set it right.
            raise Unreachable(_brief(exc)) from exc


def _brief(exc: Exception) -> str:
    text = ' '.join(str(exc).split())
    return f'{type(exc).__name__}: {text[:300]}'
