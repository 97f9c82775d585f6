# SPDX-License-Identifier: Apache-2.0
"""Puts the compute worker together, and starts and stops its parts."""

from collections.abc import Callable
import concurrent.futures
import pathlib
from typing import Any

from oslo_config import cfg
from oslo_log import log

from stillframe import context
from stillframe import exceptions
from stillframe.compute import brief
from stillframe.compute import clock
from stillframe.compute import ended
from stillframe.compute import guard
from stillframe.compute import guardian
from stillframe.compute import inventory
from stillframe.compute import journal
from stillframe.compute import ledger
from stillframe.compute import manager
from stillframe.compute import outbox
from stillframe.compute import pidlock
from stillframe.compute import quiescing
from stillframe.compute import reporter
from stillframe.compute import scheduler
from stillframe.compute import surveyor
from stillframe.compute import thawing
from stillframe.compute import unquiescing
from stillframe.compute import volume_snapshots
from stillframe.compute import watching
from stillframe.compute.imaging import imager
from stillframe.compute.libvirt import host
from stillframe.rpc import conductor_api
from stillframe.rpc import payloads
from stillframe.rpc import transport
from stillframe.rpc import versions

LOG = log.getLogger(__name__)

# Seconds that the start waits for libvirt, so that work which is there
# already is not refused for nothing.
_FIRST_CONNECTION = 10.0


class Worker:
    """One compute worker: a service with start and stop.

    :raises ConfigError: nothing can be written to the state path.
    """

    name = 'compute worker'

    def __init__(self, conf: cfg.ConfigOpts):
        self._conf = conf
        compute = conf.compute
        self._lock = _own(pathlib.Path(conf.state_path))
        # Requests wait for silent guests; what keeps deadlines must not
        # wait behind them.
        self._requests = _pool('request', compute.threads)
        self._duties = _pool('duty', compute.threads)
        self._scheduler = scheduler.Scheduler()
        alarms = scheduler.Alarms(self._scheduler, self._duty)
        self._conductor = conductor_api.ConductorAPI(conf)
        self._outbox = outbox.Outbox(
            conf.state_path, self._send_outcomes, self._answered)
        self._guardian = guardian.Guardian(
            conf.state_path, compute.connection_uri,
            compute.freeze_call_timeout)
        self._journal = journal.Journal(conf.state_path)
        self._journal.sweep_records()
        self._ledger = ledger.Ledger(
            self._journal, self._outbox, ended.Memory(conf.state_path),
            self._guardian)
        self._host = host.Host(
            compute.connection_uri, compute.keepalive_interval,
            compute.query_timeout, self._connected, self._happened)
        self._thawer = thawing.Thawer(conf, self._host, self._ledger, alarms)
        self.unquiescer = unquiescing.Unquiescer(
            self._host, self._ledger, self._thawer)
        self._watch = watching.Watch(conf, self._host, self._ledger,
                                     self._thawer, alarms)
        self.quiescer = quiescing.Quiescer(
            conf, self._host, self._ledger, self._guardian, self._thawer,
            self._watch.begin)
        freezer = brief.BriefFreezer(conf, self._host, self._ledger,
                                     self.quiescer, self._thawer)
        self.volumes = volume_snapshots.VolumeSnapshots(
            conf, self._host, freezer, self._conductor, self._ledger.tell)
        self.imager = imager.Imager(conf, self._host, self._ledger, freezer,
                                    self._scheduler, self._report_image,
                                    self._duty)
        self._inventory = inventory.Inventory()
        self._surveyor = surveyor.Surveyor(conf, self._host,
                                           self._inventory)
        self._reporter = reporter.Reporter(
            compute.host, compute.report_interval, self._conductor,
            self._inventory, self._host.capabilities, self._quiesced)
        self._recovered = False
        self._server = transport.get_server(
            conf, versions.COMPUTE_TOPIC, compute.host,
            [manager.ComputeManager(self)])

    # --- life ---------------------------------------------------------------

    def start(self) -> None:
        """Start all parts; the RPC server last.

        :raises ConfigError: another worker uses the state path.
        """
        if not self._lock.acquire():
            raise exceptions.ConfigError(
                reason=f'process {self._lock.holder()} is a compute worker '
                f'on the state path {self._conf.state_path} already. Stop '
                'it, or give this one another [DEFAULT]state_path.')
        self._load()
        self._scheduler.start()
        self._guardian.start()
        self._outbox.start()
        self._host.start(_FIRST_CONNECTION)
        self._scheduler.after(self._conf.compute.full_pass_interval,
                              ('full pass',), self._full_pass_later)
        self._server.start()
        LOG.info('The compute worker %s has started',
                 self._conf.compute.host)

    def stop(self) -> None:
        """Stop all parts, in the opposite order.

        Frozen guests stay frozen: the next life of the worker takes them
        up again, and the guard keeps their deadlines meanwhile.
        """
        self._server.stop()
        self._server.wait()
        self._ledger.stop()
        self._scheduler.stop()
        self._reporter.stop()
        self.volumes.stop()
        self.imager.stop()
        self._requests.shutdown(wait=True, cancel_futures=True)
        self._duties.shutdown(wait=True, cancel_futures=True)
        self._host.stop()
        self._outbox.stop()
        self._guardian.stop()
        self._lock.close()
        self._guardian.close()
        LOG.info('The compute worker %s has stopped',
                 self._conf.compute.host)

    def _load(self) -> None:
        """Read what an earlier life left; libvirt is not needed for it."""
        self._unreadable: list[str] = []
        for server_id in self._journal.servers():
            try:
                record = self._journal.read(server_id)
            except journal.Unreadable as exc:
                LOG.error('A freeze record is unreadable; its server will '
                          'be thawed: %s', exc)
                self._unreadable.append(server_id)
                continue
            if record is not None:
                self._ledger.load(record)

    # --- work ---------------------------------------------------------------

    def work(self, ctxt: context.RequestContext,
             call: Callable[..., object], *args: object) -> None:
        """Do a request's work on the pool for requests."""
        self._requests.submit(_for_request, ctxt, call, *args)

    def _duty(self, call: Callable[..., object], *args: object) -> None:
        """Do something that must not wait behind requests."""
        try:
            self._duties.submit(_logged, call, *args)
        except RuntimeError:
            # Events come until the very end; the next life looks anyway.
            LOG.debug('Too late for %s%r', call, args)

    def knows(self, server_id: str, request_id: str) -> bool:
        """Tell whether something of a request is on this host.

        If so, its outcome comes, or has come. A server whose freeze record
        cannot be read counts as in work, whatever the request.

        :param request_id: of a volume snapshot: the id of its operation.
        """
        # The outbox last: it takes over from the others.
        return (server_id in self._unreadable
                or self.imager.knows(request_id)
                or self.volumes.knows(request_id)
                or self._ledger.knows(request_id))

    def condition(self) -> dict[str, Any]:
        """Say how the worker is."""
        return {'host': self._conf.compute.host,
                'libvirt_connected': self._host.is_connected,
                'frozen': len(self._ledger.records())}

    # --- what others call ---------------------------------------------------

    def _connected(self) -> None:
        """libvirt is (again) there."""
        self._ledger.wake_all()
        self.volumes.connected()
        self._duty(self._after_connect)

    def _after_connect(self) -> None:
        if not self._recovered:
            self._recovered = True
            for record in self._ledger.records():
                self._duty(self._watch.recover, record.server_id)
            for server_id in self._unreadable:
                self._duty(self._watch.recover_unreadable, server_id)
            self._duty(self.volumes.recover)
            self._duty(self.imager.recover)
        else:
            for record in self._ledger.records():
                self._duty(self._watch.happened, record.server_id)
        self._full_pass()
        # If the pass failed, the inventory keeps quiet until one succeeds.
        self._reporter.start()

    def _full_pass_later(self) -> None:
        self._duty(self._full_pass)
        self._scheduler.after(self._conf.compute.full_pass_interval,
                              ('full pass',), self._full_pass_later)

    def _full_pass(self) -> None:
        for server_id in self._surveyor.full_pass():
            if self._ledger.record(server_id) is None:
                self._duty(self._watch.check, server_id)
        self._ledger.prune()
        self._reporter.changed()

    def _happened(self, event: host.Event) -> None:
        if event.kind == 'block_job':
            self.volumes.heard(event)
            return
        if event.starved:
            self._duty(self.imager.starved, event.server_id)
        if event.migrated_away:
            self._ledger.moved(event.server_id)
        if event.kind == 'reboot':
            self._duty(self._watch.rebooted, event.server_id, clock.now())
        elif event.kind != 'device':
            self._duty(self._watch.happened, event.server_id)
        self._duty(self._survey, event.server_id)

    def _survey(self, server_id: str) -> None:
        if self._surveyor.look_at(server_id):
            self._reporter.changed()

    def _send_outcomes(self, outcomes: list[payloads.Outcome]
                       ) -> list[payloads.Verdict]:
        return self._conductor.report_outcomes(
            context.system_context(), self._conf.compute.host, outcomes)

    def _report_image(self, *what: Any) -> None:
        """Tell how far an image is; a report that is lost does no harm."""
        self._duty(self._send_image, *what)

    def _send_image(self, *what: Any) -> None:
        try:
            self._conductor.report_image(
                context.system_context(), self._conf.compute.host, *what)
        except exceptions.ServiceUnavailable as exc:
            LOG.info('The conductor does not hear how far an image is: %s',
                     exc)

    def _answered(self, outcome: payloads.Outcome, verdict: str) -> None:
        if (verdict == payloads.STALE and outcome['kind'] == 'quiesce'
                and outcome['result'] == 'success'):
            self._duty(self._thawer.expire, outcome['server_id'],
                       outcome['request_id'], 'stale')
        if outcome['kind'] == 'image':
            self._duty(self.imager.answered, outcome, verdict)

    def _quiesced(self, shown: dict[str, str], asked: float) -> None:
        for server_id, freeze_id in shown.items():
            self._duty(self._watch.account_for, server_id, freeze_id, asked)


def _own(state_path: pathlib.Path) -> pidlock.PidLock:
    """Make the state path, and give the lock of its worker, not yet taken.

    :raises ConfigError: nothing can be written there.
    """
    try:
        state_path.mkdir(mode=0o700, parents=True, exist_ok=True)
        return pidlock.PidLock(state_path / guard.WORKER_LOCK)
    except OSError as exc:
        raise exceptions.ConfigError(
            reason=f'[DEFAULT]state_path {state_path} cannot be written to: '
            f'{exc.strerror}. Freezes are kept track of there: make it '
            'writable for this user, or name another folder.') from exc


def _pool(name: str, threads: int
          ) -> concurrent.futures.ThreadPoolExecutor:
    return concurrent.futures.ThreadPoolExecutor(
        threads, thread_name_prefix=name)


def _for_request(ctxt: context.RequestContext,
                 call: Callable[..., object], *args: object) -> None:
    """Do a request's work; what is logged bears the request's id."""
    ctxt.update_store()
    _logged(call, *args)


def _logged(call: Callable[..., object], *args: object) -> None:
    """Run work on a pool; what it did not foresee is logged there."""
    began = clock.now()
    try:
        call(*args)
    except Exception:
        # Whatever it is: it ends in a future at which nobody looks, so it
        # is logged here or nowhere.
        LOG.exception('%s%r failed after %.1f s; the guard and the next '
                      'check go on', call, args, clock.now() - began)
        raise
