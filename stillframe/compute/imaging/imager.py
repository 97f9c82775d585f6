# SPDX-License-Identifier: Apache-2.0
"""Makes images of this host's servers.

The guest is frozen while a point in time is taken of all its disks, and not
a moment longer; the data is copied afterwards. Whatever happens in between:
the guest is thawed, its disks are as they were, and nothing of the image is
left on this host. Images that did not become complete are removed from the
store by the conductor, which knows of them from their request.
"""

from collections.abc import Callable
from collections.abc import Iterator
import concurrent.futures
import contextlib
import threading

from oslo_config import cfg
from oslo_log import log

from stillframe.clients import cinder_snapshots
from stillframe.clients import images
from stillframe.compute import brief as brief_
from stillframe.compute import clock
from stillframe.compute import ledger as ledger_
from stillframe.compute import outcomes
from stillframe.compute import scheduler as scheduler_
from stillframe.compute.imaging import intents
from stillframe.compute.imaging import leftovers
from stillframe.compute.imaging import points
from stillframe.compute.imaging import results
from stillframe.compute.imaging import seeing
from stillframe.compute.imaging import sending
from stillframe.compute.imaging import streaming
from stillframe.compute.imaging import volumes as volumes_
from stillframe.compute.libvirt import host as host_
from stillframe.rpc import payloads
from stillframe.states import images as states
from stillframe.states.servers import Result

LOG = log.getLogger(__name__)

# Seconds between two signs of life of images, also of those that wait.
_SIGN = 10.0

#: Told of progress: request id, server id, task state, percent.
Report = Callable[[str, str, str, int], None]


class Imager:
    """Makes images; see the module."""

    def __init__(self, conf: cfg.ConfigOpts, host: host_.Host,
                 ledger: ledger_.Ledger, freezer: brief_.BriefFreezer,
                 scheduler: scheduler_.Scheduler, report: Report,
                 duty: Callable[..., object]):
        """Take what is needed.

        :param report: must not block for long.
        :param duty: does what must not wait behind images.
        """
        self._duty = duty
        self._conf = conf
        self._host = host
        self._ledger = ledger
        self._freezer = freezer
        self._scheduler = scheduler
        self._report = report
        self._stopping = threading.Event()
        self._open: dict[str, tuple[str, str, int]] = {}
        self._cinder = cinder_snapshots.Snapshots(conf)
        self._pool = concurrent.futures.ThreadPoolExecutor(
            conf.images.at_once, thread_name_prefix='image')
        self._leftovers = leftovers.Leftovers(
            conf, host, scheduler, self._work, self._volumes,
            self._stopping)

    # --- life ---------------------------------------------------------------

    def submit(self, request_id: str, request: payloads.Image) -> None:
        """Make an image on a thread of its own; see :meth:`create`."""
        if self._ledger.known(request_id):
            return
        self._at(request_id, request['server_id'], states.PENDING, 0)
        self._work(self.create, request_id, request)

    def _work(self, call: Callable[..., None], *args: object) -> None:
        try:
            self._pool.submit(self._logged, call, *args)
        except RuntimeError:
            # The worker stops; its next life goes on from the intents.
            LOG.info('%r is left to the next start', call)

    def _at(self, request_id: str, server_id: str, stage: str,
            percent: int) -> None:
        """Note how far an image is, and report it."""
        self._open[request_id] = (server_id, stage, percent)
        self._report(request_id, server_id, stage, percent)

    def _sign(self) -> None:
        """Give a sign of life of each image, also of those that wait."""
        for request_id, at in list(self._open.items()):
            self._report(request_id, *at)
        if self._open:
            self._duty(self._leftovers.look)
        self._scheduler.after(_SIGN, ('images',), self._sign)

    def starved(self, server_id: str) -> None:
        """Let a guest go on that found no room for what it overwrites.

        Its point in time is given up at once; the transfer notices.
        """
        self._leftovers.relieve(server_id)

    def answered(self, outcome: payloads.Outcome, verdict: str) -> None:
        """Take in what the conductor made of an outcome; must not block."""
        made = outcome.get('image')
        if made is not None:
            self._leftovers.settle(made['image_id'],
                                   verdict != payloads.STALE)

    def knows(self, request_id: str) -> bool:
        """Tell whether something of an image is on this host."""
        return any(intent.request_id == request_id
                   for intent in self._leftovers.intents.left())

    def recover(self) -> None:
        """Undo what an earlier life of the worker left."""
        self._sign()
        for intent in self._leftovers.intents.left():
            self._work(self._recover, intent)

    def stop(self) -> None:
        """End what is under way; it is undone first where possible."""
        self._stopping.set()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _logged(self, call: Callable[..., None], *args: object) -> None:
        try:
            call(*args)
        except Exception:
            # Whatever it is: it ends in a future at which nobody looks.
            # Without what it was called with: that may hold a token.
            LOG.exception('%r failed', call)
            raise

    # --- one image ----------------------------------------------------------

    def create(self, request_id: str, request: payloads.Image) -> None:
        """Make an image; ends in an outcome ``image``."""
        intent = intents.Intent(
            request_id=request_id, server_id=request['server_id'],
            image_id=request['image_id'], method='', folder='',
            started_at=clock.wall())
        try:
            made = self._create(intent, request)
        except seeing.CannotImage as no:
            self._tell(intent, Result.CANNOT, no.reason, str(no), no.detail)
        except tuple(results.FAILURES) as exc:
            reason, text = results.explain(exc)
            self._tell(intent, Result.FAILED, reason, text,
                       f'{type(exc).__name__}: {exc}')
        except Exception as exc:
            # What nobody foresaw ends the image too, or its server would
            # stay in its task state; the error goes on, and is logged.
            self._tell(intent, Result.FAILED, 'internal', 'Making the image '
                       'failed for a reason that was not foreseen. An '
                       'administrator finds it in the log of the compute '
                       'worker.', f'{type(exc).__name__}: {exc}')
            raise
        else:
            self._tell_made(intent, made)

    def _tell_made(self, intent: intents.Intent,
                   made: payloads.ImageEnd) -> None:
        self._tell(intent, Result.SUCCESS, None, results.sentence(made),
                   image=made)

    def _tell(self, intent: intents.Intent, result: Result,
              reason: str | None, message: str, detail: str | None = None,
              image: payloads.ImageEnd | None = None) -> None:
        LOG.info('Image %s of server %s: %s %s (%s)', intent.image_id,
                 intent.server_id, result, message, detail)
        self._open.pop(intent.request_id, None)
        self._ledger.tell(outcomes.outcome(
            'image', intent.server_id, intent.request_id, result, message,
            reason=reason, detail=detail, started_at=intent.started_at,
            image=image))
        # Killed before this, the next life tells once more, which changes
        # nothing; killed after it was forgotten, nobody would tell at all.
        self._leftovers.told(intent.image_id)

    def _create(self, intent: intents.Intent, request: payloads.Image
                ) -> payloads.ImageEnd:
        bounds = streaming.Bounds(
            silence=self._conf.images.silence_timeout,
            until=clock.now() + self._conf.images.max_duration,
            retries=self._conf.images.upload_retries,
            retry_wait=self._conf.images.retry_wait,
            stopping=self._stopping,
            scratch=self._conf.images.scratch_path,
            reserve=self._conf.images.scratch_reserve << 20)
        self._at(intent.request_id, intent.server_id, states.SNAPSHOT, 0)
        volumes = self._volumes(intent.image_id)
        seen = seeing.look(self._host, intent.server_id, volumes)
        with self._leftovers.kept(intent, seen) as kept:
            bounds.check()
            kept.point.prepare()
            moment, snapshots = self._take(request, kept.point, seen,
                                           volumes)
            end = results.describe(request['image_id'], moment,
                                   kept.point.method, snapshots)
            sending.send(
                request, seen, kept.point, images.connect(self._conf),
                bounds, end, lambda percent: self._at(
                    intent.request_id, intent.server_id, states.UPLOADING,
                    percent))
            self._leftovers.complete(kept, end)
        return end

    def _volumes(self, image_id: str) -> volumes_.Volumes:
        return volumes_.Volumes(self._cinder, image_id, self._stopping)

    def _take(self, request: payloads.Image, point: points.Point,
              seen: seeing.Seen, volumes: volumes_.Volumes
              ) -> tuple[brief_.Moment, dict[str, str]]:
        """Take the point in time, frozen if that can be had.

        :return: how it went, and snapshot ids by target.
        """
        required = request['require_quiesce'] or seen.require_quiesce
        with self._frozen(request['server_id'], seen) as (moment, until):
            if required and not moment.frozen:
                raise seeing.CannotImage(
                    'cannot_freeze', 'The image is to be made of a quiesced '
                    f'server only. {moment.why_not}', moment.detail)
            # Cinder's part first: while a backup job runs, libvirt takes
            # no snapshot of any disk.
            snapshots = volumes.make(seen.volumes, _user(request), until)
            point.take()
        if required and not moment.held:
            raise seeing.CannotImage(
                'freeze_lost', 'The image is to be made of a quiesced '
                'server only, and the server did not stay frozen.')
        return moment, snapshots

    @contextlib.contextmanager
    def _frozen(self, server_id: str, seen: seeing.Seen
                ) -> Iterator[tuple[brief_.Moment, float]]:
        """Freeze a guest that can be, in the way that its disks need.

        :return: what is known, and the moment until which it holds.
        """
        settings = self._conf.images
        timeout = (settings.volume_freeze_timeout if seen.volumes
                   else settings.freeze_timeout)
        until = clock.now() + timeout
        if not seen.awake:
            yield brief_.Moment(why_not='The server was not running.'), until
        elif seen.volumes:
            # Cinder may have this very worker take the snapshots.
            with self._freezer.frozen_openly(server_id, timeout) as moment:
                yield moment, until
        else:
            with self._freezer.frozen(server_id, timeout) as moment:
                yield moment, until

    def _recover(self, intent: intents.Intent) -> None:
        """Undo what an earlier life left, and report it."""
        if intent.made is not None:
            # It was complete. It may have been reported, or not: the
            # conductor says what it is worth.
            self._tell_made(intent, intent.made)
            self._leftovers.undo(intent)
            return
        LOG.warning('Image %s of server %s was interrupted', intent.image_id,
                    intent.server_id)
        self._tell(intent, Result.FAILED, 'restarted', 'The compute worker '
                   'was interrupted while it made the image. Nothing of it '
                   'is left; try again.')
        self._leftovers.undo(intent)


def _user(request: payloads.Image) -> cinder_snapshots.User | None:
    token = request.get('token')
    return None if not token else cinder_snapshots.User(
        token, request.get('token_project'))
