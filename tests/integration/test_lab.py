# SPDX-License-Identifier: Apache-2.0
"""The laboratory does what it promises to the tests that rely on it."""

import os
from pathlib import Path
import signal
import subprocess
import sys

import libvirt
import pymysql
import pytest

from tests.lab import disks
from tests.lab.guests import Guest
from tests.lab.keystone import ALICE
from tests.lab.libvirtd import Libvirtd
from tests.lab.processes import LabError
from tests.lab.processes import Process
from tests.lab.processes import state_dir
from tests.lab.processes import wait_until


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture
def shell_with_daemon(tmp_path: Path) -> list[str]:
    """A command that leaves a daemon behind; its pid goes to a file."""
    return ["/bin/sh", "-c",
            f"setsid sh -c 'trap : TERM; echo $$ >{tmp_path}/pid;"
            "while :; do sleep 1; done' & sleep 60"]


def _daemon(tmp_path: Path) -> int:
    file = tmp_path / "pid"
    return int(wait_until(lambda: file.exists() and file.read_text(), 5,
                          "the daemon to tell its pid"))


def test_stop_ends_daemons_too(tmp_path: Path,
                               shell_with_daemon: list[str]) -> None:
    process = Process("shell", shell_with_daemon, tmp_path / "log").start()
    daemon = _daemon(tmp_path)
    process.stop()
    assert process.returncode == -signal.SIGTERM
    assert not _alive(daemon)


def test_nothing_outlives_a_killed_starter(
        tmp_path: Path, shell_with_daemon: list[str]) -> None:
    starter = subprocess.Popen(
        [sys.executable, "-c",
         "import sys, time; from pathlib import Path\n"
         "from tests.lab.processes import Process\n"
         "Process('x', sys.argv[2:], Path(sys.argv[1])).start()\n"
         "time.sleep(60)", tmp_path / "log", *shell_with_daemon],
        cwd=Path(__file__).parents[2])
    daemon = _daemon(tmp_path)
    starter.kill()
    starter.wait()
    wait_until(lambda: not _alive(daemon), 10, "the daemon to end")


def test_a_program_that_ends_early_is_told_with_its_log(
        tmp_path: Path) -> None:
    process = Process("early", ["/bin/sh", "-c", "echo why; exit 3"],
                      tmp_path / "log").start()
    with pytest.raises(LabError, match="ended with 3:\nwhy"):
        process.wait_ready(lambda: False)
    process.stop()


def test_state_dir_leaves_nothing() -> None:
    with state_dir("x") as path:
        (path / "below").mkdir()
        assert len(str(path)) < 20
    assert not path.exists()


def test_state_dir_of_a_killed_owner_is_swept() -> None:
    owner = subprocess.Popen(
        [sys.executable, "-u", "-c",
         "import time\n"
         "from tests.lab.processes import state_dir\n"
         "with state_dir('x') as path: print(path); time.sleep(60)"],
        cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, text=True)
    assert owner.stdout
    left = Path(owner.stdout.readline().strip())
    with state_dir("y"):
        assert left.exists()
    owner.kill()
    owner.communicate()
    with state_dir("z"):
        assert not left.exists()


def test_guest_writes_until_frozen(guest: Guest, tmp_path: Path) -> None:
    loose = guest.copy(tmp_path / "loose")
    guest.freeze()
    stopped_at, requests = guest.counter(), guest.block_writes()
    copy = guest.copy(tmp_path / "copy")
    assert guest.frozen()
    assert guest.counter() == stopped_at
    assert guest.block_writes() == requests
    guest.thaw()
    guest.wait_counter(stopped_at)
    assert disks.needs_recovery(loose)
    assert not disks.needs_recovery(copy)
    assert int(disks.read_file(copy, "/counter")) >= stopped_at


def test_failing_hook_keeps_the_guest_thawed(guest: Guest) -> None:
    guest.set_hook(fail=True)
    with pytest.raises(libvirt.libvirtError, match="hook has failed"):
        guest.freeze()
    assert not guest.frozen()


def test_hook_that_hangs_the_agent_freezes_later(guest: Guest) -> None:
    guest.set_hook(hang=2)
    guest.domain.agentSetResponseTimeout(1, 0)
    with pytest.raises(libvirt.libvirtError, match="not available"):
        guest.freeze()
    guest.domain.agentSetResponseTimeout(-2, 0)
    wait_until(lambda: guest.frozen(timeout=10), 10, "the late freeze")
    guest.thaw()


def test_agent_killed_while_frozen_comes_back_frozen(guest: Guest) -> None:
    guest.freeze()
    guest.kill_agent()
    assert guest.frozen()
    guest.thaw()


def test_reboot_while_frozen(guest: Guest) -> None:
    boots = guest.boots()
    guest.freeze()
    guest.reboot_from_inside()
    guest.wait_boots(boots + 1)
    guest.wait_agent()
    assert not guest.frozen()


def test_guest_without_channel_or_agent(host_a: Libvirtd) -> None:
    with (Guest(host_a, "mute", channel=False) as guest,
          pytest.raises(libvirt.libvirtError, match="not configured")):
        guest.freeze()
    with Guest(host_a, "idle", agent=False) as guest:
        with pytest.raises(libvirt.libvirtError, match="not connected"):
            guest.freeze()
        guest.start_agent()
        guest.wait_agent()
        assert guest.freeze() == 1
        guest.thaw()


def test_guest_survives_its_daemon(own_host: Libvirtd) -> None:
    with Guest(own_host, "survivor", persistent=False) as guest:
        guest.freeze()
        own_host.restart()
        guest.wait_agent()
        assert guest.frozen()
        own_host.kill()
        own_host.start()
        guest.wait_agent()
        assert guest.frozen()
        guest.thaw()


def test_guest_moves_frozen(host_b: Libvirtd, host_a: Libvirtd) -> None:
    with Guest(host_a, "mover") as guest:
        guest.freeze()
        stopped_at = guest.counter()
        guest.migrate(host_b)
        assert guest.uuid not in {
            domain.UUIDString()
            for domain in host_a.connection.listAllDomains()}
        guest.wait_agent()
        assert guest.frozen()
        guest.thaw()
        guest.wait_counter(stopped_at)


def test_databases_keep_data_over_a_crash(mariadb, postgres) -> None:
    for server in (mariadb, postgres):
        server.create("kept")
        server.kill()
        server.start()
        server.drop("kept")
    with pytest.raises(pymysql.err.Error):
        mariadb._execute("USE kept")


def test_broker_knows_its_user(rabbit) -> None:
    assert "stillframe" in rabbit.ctl("list_users")


def test_keystone_gives_tokens(keystone) -> None:
    with keystone.connect(ALICE) as cloud:
        assert cloud.current_project.name == ALICE.project
