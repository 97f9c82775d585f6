# SPDX-License-Identifier: Apache-2.0
"""Many simulated compute workers in one process.

``python -m tools.bench.fleet --config-file FILE`` starts WORKERS workers
at once. What they share of the real one is everything that reports:
surveyor, inventory, reporter and the RPC client; their hosts exist on paper
only. It prints ``settled SECONDS`` when the conductor has confirmed the
picture of every worker, and goes on reporting until standard input ends.
"""

import heapq
import itertools
import sys
import threading
import time
from typing import Any

from oslo_config import cfg

from stillframe import context
from stillframe import service
from stillframe.compute import reporter
from stillframe.rpc import conductor_api
from stillframe.rpc import payloads
from stillframe.rpc import transport
from tools.bench import population

WORKERS = 200
_THREADS = 16
_PATIENCE = 180.0


class _Witness:
    """Passes reports on, and notes when the conductor has all of them."""

    def __init__(self, conductor: conductor_api.ConductorAPI):
        self._conductor = conductor
        self._lock = threading.Lock()
        self._alive: set[str] = set()
        self._complete: set[str] = set()
        self.settled = threading.Event()

    def report_service(self, ctxt: context.RequestContext, host: str,
                       *rest: Any) -> payloads.ServiceReply:
        """Tell that a worker is alive."""
        reply = self._conductor.report_service(ctxt, host, *rest)
        with self._lock:
            self._alive.add(host)
            if reply['resync']:
                self._complete.discard(host)
        self._look()
        return reply

    def report_servers(self, ctxt: context.RequestContext, host: str,
                       *rest: Any) -> payloads.ServersReply:
        """Tell which servers a host has; at first all of them."""
        reply = self._conductor.report_servers(ctxt, host, *rest)
        with self._lock:
            self._complete.add(host)
        self._look()
        return reply

    def _look(self) -> None:
        with self._lock:
            if len(self._alive) == len(self._complete) == WORKERS:
                self.settled.set()


class _Fleet:
    """The workers, and the threads that do the turn that is due next."""

    def __init__(self, conf: cfg.ConfigOpts, witness: _Witness):
        self._conf = conf
        self._order = itertools.count()
        self._due: list[tuple[float, int, Any]] = []
        self._changed = threading.Condition()
        self._stopping = False
        self._threads = [
            threading.Thread(target=self._work, name=f'fleet-{number}')
            for number in range(_THREADS)]
        self._turns: list[Any] = []
        for number in range(WORKERS):
            self._add(number, witness)

    def _add(self, number: int, witness: _Witness) -> None:
        host = population.Host(number, population.SERVERS // WORKERS)
        looks, kept = population.surveyed(self._conf, host)
        reports = reporter.Reporter(
            population.host_name(number),
            self._conf.compute.report_interval, witness, kept,
            host.capabilities, lambda _quiesced, _asked: None)
        full_pass = self._conf.compute.full_pass_interval

        def look() -> float:
            looks.full_pass()
            return full_pass

        self._turns.append(reports.step)
        # As if they had been started at different moments of a minute.
        self._push(time.monotonic() + full_pass * (1 + number / WORKERS),
                   look)

    def _push(self, moment: float, turn: Any) -> None:
        heapq.heappush(self._due, (moment, next(self._order), turn))

    def start(self) -> None:
        for turn in self._turns:
            self._push(time.monotonic(), turn)
        for one in self._threads:
            one.start()

    def stop(self) -> None:
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        for one in self._threads:
            one.join()

    def _work(self) -> None:
        while (turn := self._next()) is not None:
            pause = turn()
            with self._changed:
                self._push(time.monotonic() + pause, turn)
                self._changed.notify()

    def _next(self) -> Any:
        with self._changed:
            while not self._stopping:
                if not self._due:
                    self._changed.wait()
                    continue
                left = self._due[0][0] - time.monotonic()
                if left <= 0:
                    return heapq.heappop(self._due)[2]
                self._changed.wait(left)
            return None


def main() -> int:
    """Report until a line is read."""
    conf = service.prepare(prog='fleet')
    witness = _Witness(conductor_api.ConductorAPI(conf))
    fleet = _Fleet(conf, witness)
    began = time.monotonic()
    fleet.start()
    settled = witness.settled.wait(_PATIENCE)
    if settled:
        print(time.monotonic() - began, flush=True)
        sys.stdin.readline()
    fleet.stop()
    transport.cleanup()
    return 0 if settled else 1


if __name__ == '__main__':
    sys.exit(main())
