# SPDX-License-Identifier: Apache-2.0
"""Telling Cinder what became of volume snapshots, until it has taken it.

Cinder polls its own database, and takes what it finds there for the truth.
So what it is told is told until it has taken it, across restarts of either
side; and nothing is told that it could take for the outcome of another
request.

A new snapshot that Cinder had given up before it was told (it waits 600 s)
is the one outcome that cannot be left so: the server writes to a file of
which Cinder does not know. When Cinder says for certain that it never heard
of the success, the file is merged down again.
"""

from collections.abc import Callable
import threading

from oslo_config import cfg
from oslo_log import log
import sqlalchemy as sa

from stillframe import exceptions
from stillframe.clients import cinder as cinder_
from stillframe.db import volume_snapshot_delivery as delivery
from stillframe.db import volume_snapshot_undo as undo
from stillframe.states import volume_snapshots as states
from stillframe.states.volume_snapshots import Delivery
from stillframe.states.volume_snapshots import Form

LOG = log.getLogger(__name__)

# A refusal counts as final when it was given so often.
_REFUSALS = 3
# Telling Cinder takes a few requests at most.
_REQUESTS = 6
_BATCH = 20
_MOST_DOUBLINGS = 16

_UNWANTED = ('Cinder had given the snapshot up and does not know of the new '
             'file, which is therefore merged down again: see the request '
             '"undo".')
_UNCLEAR = ('Whether Cinder knows of the new file cannot be told: compare '
            'the chain of the disk with the .info file of the volume before '
            'the server is stopped or the volume is snapshotted again.')


def wait_after(attempts: int, first: float, longest: float) -> float:
    """Give the seconds between a try in vain and the next.

    :param attempts: tries before the last one.
    :param first: seconds after the very first.
    """
    return min(first * 2 ** min(attempts, _MOST_DOUBLINGS), longest)


def tried_for(attempts: int, first: float, longest: float) -> float:
    """Give the seconds for which so many tries have gone on, at least.

    What was waited between them is counted, and no clock asked: a step of
    one must not end the tries, and a restart not begin them anew.
    """
    return sum(wait_after(number, first, longest)
               for number in range(attempts))


class Teller:
    """A thread that tells Cinder what is due."""

    def __init__(self, conf: cfg.ConfigOpts, cinder: cinder_.Cinder,
                 hand_on: Callable[[sa.RowMapping], None]):
        """Take what is needed.

        :param hand_on: hands a request to its worker; raises
            ServiceUnavailable.
        """
        self._conf = conf
        self._cinder = cinder
        self._hand_on = hand_on
        self._wake = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(
            target=self._tell_all, name='conductor-cinder', daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Stop; what is left is told by another conductor, or later."""
        self._stopping = True
        self._wake.set()
        self._thread.join(self._lease())

    def wake(self) -> None:
        """Look for what is due now."""
        self._wake.set()

    def form(self) -> Form | None:
        """Give the form that Cinder takes, if that is known for certain.

        :raises Unreachable: Keystone does not tell where Cinder is.
        """
        return self._forms()[0] if self._is_certain() else None

    def _lease(self) -> float:
        return _REQUESTS * (self._conf.cinder.timeout or 60.0)

    def _tell_all(self) -> None:
        while not self._stopping:
            wait = self._conf.conductor.reap_interval
            try:
                if self._cinder.is_configured:
                    wait = min(wait, self._tell_due())
            except exceptions.ServiceUnavailable as exc:
                LOG.warning('Cinder is told later: %s', exc)
            except Exception:  # noqa: BLE001
                # Whatever it was, the outcomes of other snapshots must be
                # told. The row stays due; its lease brings it back.
                LOG.exception('Telling Cinder failed')
            self._wake.wait(wait)
            self._wake.clear()

    def _tell_due(self) -> float:
        """Tell what is due; give the seconds until there may be more."""
        wait = self._conf.conductor.reap_interval
        for row in delivery.take_due(
                self._lease(), self._conf.cinder.retry_wait_max, _BATCH):
            if self._stopping:
                delivery.give_back(row['uuid'], None, 0)
                continue
            again_in = self._tell(row)
            if again_in is not None:
                wait = min(wait, again_in)
        return wait

    def _tell(self, row: sa.RowMapping) -> float | None:
        """Tell Cinder of one outcome.

        :return: seconds until the next try, None when it is over.
        """
        try:
            try:
                form = self._send(row)
            except (cinder_.Unknown, cinder_.Refused) as exc:
                # That there is no such snapshot ends most matters, but not
                # one in which files would be merged for it.
                final = isinstance(exc, cinder_.Unknown) and not _is_new(row)
                if not final and row['delivery_refusals'] + 1 < _REFUSALS:
                    return self._later(row, str(exc), refused=True)
                return self._not_taken(row, str(exc))
        except cinder_.Unreachable as exc:
            return self._later(row, str(exc))
        return self._over(row, Delivery.DELIVERED, form, None)

    def _over(self, row: sa.RowMapping, how: Delivery, form: str | None,
              error: str | None) -> float | None:
        """End a row; there is no next try."""
        delivery.end(row['uuid'], how, form, error)
        log_ = LOG.info if how is Delivery.DELIVERED else LOG.error
        log_('Cinder, snapshot %s, %s %s: %s (%s)', row['snapshot_id'],
             row['operation'], row['state'], how, error or form)
        return None

    def _later(self, row: sa.RowMapping, error: str,
               refused: bool = False) -> float | None:
        """Try again later, unless that was done for long enough."""
        group = self._conf.cinder
        waits = group.retry_wait, group.retry_wait_max
        if tried_for(row['delivery_attempts'],
                     *waits) > group.give_up_after:
            return self._over(
                row, Delivery.GIVEN_UP, None,
                f'{error} {_UNCLEAR}' if _is_new(row) else error)
        wait = wait_after(row['delivery_attempts'], *waits)
        LOG.warning('Cinder was not told of snapshot %s; again in %.1f s: '
                    '%s', row['snapshot_id'], wait, error)
        delivery.give_back(row['uuid'], error, wait, refused)
        return wait

    # --- the update ---------------------------------------------------------

    def _send(self, row: sa.RowMapping) -> str | None:
        """Send the outcome in a form that Cinder takes.

        :return: the form; None where there is but one.
        """
        snapshot_id = row['snapshot_id']
        if row['state'] != states.State.DONE:
            self._cinder.update(snapshot_id,
                                cinder_.failed(row['operation']))
            return None
        forms = self._forms()
        for form in forms:
            try:
                self._cinder.update(snapshot_id, cinder_.completed(
                    form, row['operation'], row['formats'] or {}))
            except cinder_.Refused:
                if form is forms[-1]:
                    raise
                continue
            if len(forms) > 1 and (form is not forms[0]
                                   or not self._is_certain()):
                delivery.learn_form(self._cinder.endpoint(), form)
            return form
        raise ValueError('there is no form at all')

    def _forms(self) -> list[Form]:
        """Give the forms to try, the most promising one first."""
        wish = self._conf.cinder.status_form
        if wish != 'auto':
            return [Form(wish)]
        known = delivery.form_of(self._cinder.endpoint())
        return [Form.STOCK, Form.SPEC] if known == Form.STOCK else [
            Form.SPEC, Form.STOCK]

    def _is_certain(self) -> bool:
        return (self._conf.cinder.status_form != 'auto'
                or delivery.form_of(self._cinder.endpoint()) is not None)

    # --- what Cinder will not hear of ---------------------------------------

    def _not_taken(self, row: sa.RowMapping, error: str) -> float | None:
        """End a row that Cinder refuses for good.

        :return: as :meth:`_tell`.
        :raises Unreachable: Cinder does not say how the snapshot is.
        """
        if not _is_new(row):
            return self._over(row, Delivery.REFUSED, None, error)
        try:
            condition = self._cinder.condition(row['snapshot_id'])
        except cinder_.Refused as exc:
            raise cinder_.Unreachable(str(exc)) from exc
        if condition is None:
            # A snapshot of whose success it had heard would not go without
            # a request to us, and that would have superseded this row.
            return self._take_back(row, error)
        if not condition.settled:
            return self._later(row, error)
        if condition.took_success:
            # It had taken it; only the answer was lost.
            return self._over(row, Delivery.DELIVERED, None, error)
        if condition.took_success is None:
            return self._over(row, Delivery.REFUSED, None,
                              f'{error} {_UNCLEAR}')
        return self._take_back(row, error)

    def _take_back(self, row: sa.RowMapping, error: str) -> float | None:
        """Have a new file merged down of which Cinder does not know."""
        try:
            request = undo.begin(row, f'{error} {_UNWANTED}')
        except (exceptions.VolumeBusy, exceptions.WrongVolumeState) as exc:
            return self._later(row, f'{error} The new file is merged down '
                               f'later: {exc}')
        LOG.error('Cinder does not know of the new file of snapshot %s: %s',
                  row['snapshot_id'], error)
        if request is None:
            LOG.error('Nothing of snapshot %s can be merged down',
                      row['snapshot_id'])
        else:
            self._hand_on(request)
        return None


def _is_new(row: sa.RowMapping) -> bool:
    """Tell whether the server writes to a new file since this request."""
    return (row['operation'] == states.CREATE
            and row['state'] == states.State.DONE)
