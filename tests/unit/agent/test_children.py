# SPDX-License-Identifier: Apache-2.0
"""Programs that the agent runs."""

from concurrent import futures
import threading

import pytest

from stillframe.agent import children
from stillframe.agent import failures


def test_stop_of_one_that_nothing_ends(monkeypatch):
    """It hangs in the kernel: a signal does not reach it."""
    begun, kill = threading.Event(), children._kill
    killed = []
    monkeypatch.setattr(children, '_kill', killed.append)
    monkeypatch.setattr(children, '_LAST', 0.01)
    runner = children.Children()

    def watch(_pid):
        begun.set()
        return 0

    with futures.ThreadPoolExecutor(1) as pool:
        running = pool.submit(runner.run, 'sleep', '60', watch=watch)
        assert begun.wait(20)
        runner.stop()
        try:
            with pytest.raises(failures.Stopped):
                running.result(20)
        finally:
            kill(killed[0])
            killed[0].wait(20)
