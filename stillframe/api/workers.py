# SPDX-License-Identifier: Apache-2.0
"""Which services are up."""

from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import threading
import time

from oslo_config import cfg
import sqlalchemy as sa

from stillframe.db import liveness
from stillframe.db import services

# Seconds for which what was read of the workers is used again. A worker
# counts as down after many times that.
_FRESH = 1.0


@dataclasses.dataclass(frozen=True)
class Worker:
    """The compute worker of a host, as it was seen last."""

    row: sa.RowMapping
    up: bool


class Workers:
    """Answers from a picture of the workers that is a second old at most."""

    def __init__(self, conf: cfg.ConfigOpts):
        self._liveness = liveness.Liveness(conf.api.service_down_time)
        self._lock = threading.Lock()
        self._read_at = float('-inf')
        self._workers: Mapping[str, Worker] = {}

    def services(self, host: str | None, binary: str | None
                 ) -> Sequence[tuple[sa.RowMapping, bool]]:
        """List services, each with whether it is up.

        :param host: only those on this host.
        :param binary: only those of this kind.
        """
        return [(row, self._liveness.is_up(row))
                for row in services.list_all(host, binary)]

    def get(self, host: str) -> Worker | None:
        """Give the compute worker of a host, if there ever was one."""
        worker = self.all().get(host)
        if worker is None or not worker.up:
            # It may have come back within the last second.
            worker = self._read().get(host)
        return worker

    def blind(self) -> bool:
        """Tell whether all conductors are down.

        It is they who tell of a worker, so then nothing is known of any:
        one that looks down may well be at work.
        """
        found = self.services(None, services.CONDUCTOR)
        return bool(found) and not any(up for _row, up in found)

    def all(self) -> Mapping[str, Worker]:
        """Give the compute workers by host."""
        with self._lock:
            if time.monotonic() - self._read_at < _FRESH:
                return self._workers
        return self._read()

    def _read(self) -> Mapping[str, Worker]:
        read_at = time.monotonic()
        found = {row['host']: Worker(row, up) for row, up
                 in self.services(None, services.COMPUTE)}
        with self._lock:
            self._workers, self._read_at = found, read_at
        return found
