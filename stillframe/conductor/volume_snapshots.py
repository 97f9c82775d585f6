# SPDX-License-Identifier: Apache-2.0
"""Volume snapshots, as the conductor sees them: start and outcome."""

from typing import Any

from oslo_config import cfg
from oslo_log import log
from oslo_utils import strutils
import sqlalchemy as sa

from stillframe import context
from stillframe import exceptions
from stillframe.clients import cinder as cinder_
from stillframe.clients import images
from stillframe.conductor import telling
from stillframe.db import servers
from stillframe.db import volume_snapshots as db
from stillframe.rpc import compute_api
from stillframe.rpc import payloads
from stillframe.states import volume_snapshots as states
from stillframe.states.volume_snapshots import Form

LOG = log.getLogger(__name__)

# Seconds for asking what the image of a server wishes; Cinder is waiting.
_ASK_IMAGE = 5.0
_NOT_HANDED_ON = ('The request could not be handed to the compute worker, so '
                  'nothing was done.')


class VolumeSnapshots:
    """Starts requests and tells Cinder of their outcome."""

    def __init__(self, conf: cfg.ConfigOpts):
        self._cinder = cinder_.Cinder(conf)
        self._compute = compute_api.ComputeAPI(conf)
        self._images = images.connect(conf)
        self._teller = telling.Teller(conf, self._cinder, self._hand_on)

    def start(self) -> None:
        """Begin to tell Cinder."""
        self._teller.start()

    def stop(self) -> None:
        """Stop; what is left is told by another conductor, or later."""
        self._teller.stop()

    @property
    def tells(self) -> bool:
        """Whether there is a Cinder to be told."""
        return self._cinder.is_configured

    # --- start --------------------------------------------------------------

    def begin(self, ctxt: context.RequestContext,
              operation_id: str) -> None:
        """Hand an accepted request to its worker.

        :raises ServiceUnavailable: it was not begun.
        """
        row = db.get(operation_id)
        if row['operation'] == states.DELETE and self.tells:
            self._wipe(row)
        payload = _payload(row)
        if row['operation'] == states.CREATE:
            payload['require_quiesce'] = self._requires_quiesce(row)
        self._compute.snapshot_volume(ctxt, row['host'], payload)

    def _hand_on(self, row: sa.RowMapping) -> None:
        """Hand a request of our own to its worker.

        :raises ServiceUnavailable: it was not begun, and never will be.
        """
        try:
            self._compute.snapshot_volume(context.system_context(),
                                          row['host'], _payload(row))
        except exceptions.ServiceUnavailable:
            db.give_up(row['uuid'], states.State.PENDING, _NOT_HANDED_ON,
                       tell=False)
            raise

    def _requires_quiesce(self, row: sa.RowMapping) -> bool:
        """Tell whether the image of the server asks for a freeze.

        What cannot be asked is not required, as Nova has it.
        """
        try:
            image_id = servers.get(row['server_uuid'])['image_id']
            if image_id is None:
                return False
            properties = self._images.properties(image_id, _ASK_IMAGE)
        except (images.StoreUnavailable, images.ImageRefused,
                exceptions.ServerNotFound) as exc:
            LOG.warning('Snapshot %s: whether its server must be frozen is '
                        'not known: %s', row['snapshot_id'], exc)
            return False
        return strutils.bool_from_string(
            properties.get('os_require_quiesce', ''))

    def _wipe(self, row: sa.RowMapping) -> None:
        """See that Cinder does not take an old success for the new one.

        :raises ServiceUnavailable: that could not be had.
        """
        try:
            if self._teller.form() is Form.SPEC:
                # There, an outcome has statuses of its own.
                return
            self._cinder.update(row['snapshot_id'], cinder_.begun())
        except (cinder_.Refused, cinder_.Unknown) as exc:
            # Then it is not waiting for an outcome either.
            LOG.info('Snapshot %s: its progress stays as it is: %s',
                     row['snapshot_id'], exc)
        except cinder_.Unreachable as exc:
            LOG.error('Snapshot %s is not merged: %s', row['snapshot_id'],
                      exc)
            raise exceptions.ServiceUnavailable(
                service='Cinder', what='the merge') from exc

    # --- outcome ------------------------------------------------------------

    def finish(self, host: str, outcome: payloads.Outcome) -> str:
        """Take down an outcome, and tell Cinder soon.

        :return: a verdict of :mod:`stillframe.rpc.payloads`.
        """
        verdict = db.finish(host, outcome, self.tells)
        self.wake()
        return verdict

    def wake(self) -> None:
        """Look for what is due now."""
        self._teller.wake()


def _payload(row: sa.RowMapping) -> payloads.VolumeSnapshot:
    made: dict[str, Any] = dict(
        row['request'], operation_id=row['uuid'],
        operation=row['operation'], server_id=row['server_uuid'],
        volume_id=row['volume_id'], snapshot_id=row['snapshot_id'])
    return made  # type: ignore[return-value]
