# SPDX-License-Identifier: Apache-2.0
"""Do the laboratory's Glance and Cinder do what the tests rely on?"""

from collections.abc import Iterator
import hashlib
import io
import os
from pathlib import Path
import signal
import subprocess
import sys
import time

from cinderclient import exceptions as cinder_errors
from glanceclient import exc as glance_errors
import pytest
import requests

from tests.lab import openstack
from tests.lab.cinder import Cinder
from tests.lab.cinder_dialects import ACTION
from tests.lab.cinder_dialects import STOCK
from tests.lab.cinder_double import CinderDouble
from tests.lab.compute_standin import ComputeStandIn
from tests.lab.compute_standin import backing_file
from tests.lab.glance import Glance
from tests.lab.keystone import ALICE
from tests.lab.keystone import Keystone
from tests.lab.processes import LabError
from tests.lab.processes import unprivileged_user
from tests.lab.processes import wait_until
from tests.lab.volumes import Volumes
from tests.lab.volumes import client

#: The first test of all waits for three services to start.
pytestmark = pytest.mark.timeout(600)
CONTENT = os.urandom(3 << 20)


# --- Glance ------------------------------------------------------------------

def _upload(glance: Glance) -> str:
    images = glance.client().images
    image = images.create(name="one", disk_format="raw",
                          container_format="bare")
    images.upload(image.id, io.BytesIO(CONTENT))
    return image.id


def test_an_image_comes_back_as_it_went(glance: Glance) -> None:
    images = glance.client().images
    image_id = _upload(glance)
    try:
        image = images.get(image_id)
        assert image.status == "active"
        assert image.size == len(CONTENT)
        digest = hashlib.new(image.os_hash_algo, CONTENT).hexdigest()
        assert image.os_hash_value == digest
        assert b"".join(images.data(image_id)) == CONTENT
        assert image_id in {path.name for path in glance.files()}
    finally:
        images.delete(image_id)
    assert image_id not in {path.name for path in glance.files()}


def test_glance_keeps_its_images_when_it_is_down(glance: Glance) -> None:
    image_id = _upload(glance)
    glance.stop()
    with pytest.raises(glance_errors.CommunicationError):
        glance.client().images.get(image_id)
    glance.start()
    assert glance.client().images.get(image_id).status == "active"
    glance.client().images.delete(image_id)


# --- Cinder, all may do all --------------------------------------------------

def test_the_hypervisor_may_write_to_what_cinder_made(
        volumes: Volumes) -> None:
    volume = volumes.create()
    snapshot = volumes.snapshot(volume)
    user = unprivileged_user()
    become = [] if user is None else ["setpriv", "--reuid", user, "--regid",
                                      "nogroup", "--clear-groups"]
    for path, image_format in (
            (volumes.path(volume), "raw"),
            (volumes.snapshot_path(volume, snapshot), "qcow2")):
        subprocess.run([*become, "qemu-io", "-f", image_format, "-c",
                        "write -P 1 0 64k", path], check=True, timeout=30,
                       stdout=subprocess.DEVNULL)


def test_snapshots_of_an_attached_volume_ask_the_compute_endpoint(
        volumes: Volumes, compute_standin: ComputeStandIn) -> None:
    volume = volumes.create()
    attachment = volumes.attach(volume)
    assert attachment.path == volumes.path(volume)
    assert (attachment.image_format, attachment.serial) == ("raw", volume)
    first, second, third = (volumes.snapshot(volume) for _ in range(3))
    names = [f"volume-{volume}", *(f"volume-{volume}.{one}"
                                   for one in (first, second, third))]
    assert [one.asked for one in compute_standin.requests] == [
        {"type": "qcow2", "new_file": name, "snapshot_id": snapshot}
        for name, snapshot in zip(names[1:], (first, second, third),
                                  strict=True)]
    assert {one.path for one in compute_standin.requests} == {
        "/v2.1/os-assisted-volume-snapshots"}
    assert [backing_file(volumes.cinder.share / one) for one in names] == [
        None, *names[:-1]]
    assert volumes.info(volume)["active"] == names[3]
    told = volumes.connection_info(attachment)
    assert (told["name"], told["format"]) == (names[3], "qcow2")

    for snapshot in (second, third, first):
        volumes.delete_snapshot(snapshot)
    deletes = compute_standin.requests[3:]
    assert [(one.path.rpartition("/")[2], one.asked) for one in deletes] == [
        # In the middle: down into the one below.
        (second, {"type": "qcow2", "volume_id": volume,
                  "file_to_merge": names[2], "merge_target_file": names[1]}),
        # The active one: everything above the lowest is pulled up.
        (third, {"type": "qcow2", "volume_id": volume,
                 "file_to_merge": names[0], "merge_target_file": None}),
        # The active one, and the last: nothing stays below it.
        (first, {"type": "qcow2", "volume_id": volume,
                 "file_to_merge": None, "merge_target_file": None})]
    assert volumes.files(volume) == [names[3]]
    assert backing_file(volumes.cinder.share / names[3]) is None
    assert not compute_standin.errors


def test_a_refusal_of_the_compute_endpoint_is_an_error(
        volumes: Volumes) -> None:
    volume = volumes.create()
    volumes.attach(volume)
    # Nobody listens.
    snapshot = volumes.begin_snapshot(volume)
    volumes.wait_snapshot(snapshot, "error")
    with pytest.raises(LabError, match="is error, not available"):
        volumes.wait_snapshot(snapshot, "available")


def test_cinder_stops_and_starts_with_what_it_had(
        volumes: Volumes, compute_standin: ComputeStandIn) -> None:
    cinder = volumes.cinder
    volume = volumes.create()
    volumes.attach(volume)
    first = volumes.snapshot(volume)
    with cinder.down(), pytest.raises(requests.ConnectionError):
        requests.get(cinder.endpoint, timeout=5)
    cinder.stop()
    assert not cinder.processes
    cinder.start()
    assert volumes.status(volume) == "in-use"
    second = volumes.snapshot(volume)
    volumes.delete_snapshot(second)
    volumes.delete_snapshot(first)
    assert len(volumes.files(volume)) == 1


def test_a_crash_of_cinder_volume_in_the_midst_of_snapshots(
        volumes: Volumes, compute_standin: ComputeStandIn) -> None:
    """One that was being made is in error; one being deleted stays so."""
    first, second = volumes.create(), volumes.create()
    volumes.attach(first)
    volumes.attach(second)
    deleted = volumes.snapshot(second)
    compute_standin.silent = True
    made = volumes.begin_snapshot(first)
    volumes.begin_delete(deleted)
    compute_standin.wait_requests(3)
    volumes.cinder.crash(["volume"])
    assert volumes.snapshot_status(made) == "creating"
    volumes.cinder.start(["volume"])
    assert volumes.snapshot_status(made) == "error"
    assert volumes.snapshot_status(deleted) == "deleting"


def test_what_stock_cinder_refuses(
        volumes: Volumes, compute_standin: ComputeStandIn) -> None:
    """The reason why there are two dialects."""
    volume = volumes.create()
    volumes.attach(volume)
    compute_standin.silent = True
    snapshot = volumes.begin_snapshot(volume)
    compute_standin.wait_requests(1)
    update = volumes.client.volume_snapshots.update_snapshot_status
    for body in ({"status": "creating_compute_complete"},
                 {"status": "creating", "progress": "90%",
                  "file_format": {f"volume-{volume}.{snapshot}": "qcow2"}}):
        with pytest.raises(cinder_errors.BadRequest):
            update(snapshot, body)
    assert volumes.snapshot_status(snapshot) == "creating"
    update(snapshot, {"status": "creating", "progress": "90%"})
    volumes.wait_snapshot(snapshot, "available")


# --- Cinder and Glance with Keystone -----------------------------------------

@pytest.fixture
def cloud_volumes(cloud_cinder: Cinder) -> Iterator[Volumes]:
    with Volumes(cloud_cinder, ALICE) as made:
        yield made


def test_with_keystone_cinder_comes_with_a_service_token(
        cloud_volumes: Volumes) -> None:
    volume = cloud_volumes.create()
    attachment = cloud_volumes.attach(volume)
    with ComputeStandIn(cloud_volumes) as standin:
        cloud_volumes.cinder.compute.point_at(standin.port)
        snapshot = cloud_volumes.snapshot(volume)
        cloud_volumes.delete_snapshot(snapshot)
    for request in standin.requests:
        assert request.headers["X-Auth-Token"]
        assert request.headers["X-Service-Token"]
    assert len(standin.requests) == 2
    cloud_volumes.detach(attachment)


def test_with_keystone_strangers_are_turned_away(
        cloud_keystone: Keystone, cloud_cinder: Cinder) -> None:
    project = openstack.session(cloud_keystone, ALICE).get_project_id()
    answer = requests.get(f"{cloud_cinder.endpoint}/{project}/volumes",
                          headers={"X-Auth-Token": "stranger"}, timeout=30)
    assert answer.status_code == 401
    assert client(cloud_cinder, ALICE).volumes.list() == []


def test_with_keystone_glance_knows_the_owner(
        cloud_keystone: Keystone, cloud_glance: Glance) -> None:
    session = openstack.session(cloud_keystone, ALICE)
    image_id = _upload(cloud_glance)
    endpoint = session.get_endpoint(service_type="image")
    assert endpoint == cloud_glance.url
    answer = session.get(f"{endpoint}/v2/images/{image_id}",
                         raise_exc=False)
    assert answer.status_code == 404
    cloud_glance.client().images.delete(image_id)


# --- the double --------------------------------------------------------------

SNAPSHOT = "0c9b60a7-6dd7-4b4a-a44f-4f6a24a3b5d1"
VOLUME = "8f4c8a71-5f0f-4f5c-b9d5-d0a9a2b6d2aa"
FILE = f"volume-{VOLUME}.{SNAPSHOT}"
COMPLETE = {"status": "creating_compute_complete", "progress": "90%",
            "file_format": {FILE: "qcow2"}}


def _tell(double: CinderDouble, update: object, token: str = "t"  # noqa: S107
          ) -> int:
    return requests.post(
        f"{double.endpoint}/{'ab' * 16}/snapshots/{SNAPSHOT}/action",
        json={ACTION: update}, headers={"X-Auth-Token": token},
        timeout=10).status_code


def test_the_double_takes_the_spec_form(cinder_double: CinderDouble) -> None:
    cinder_double.add_snapshot(SNAPSHOT, VOLUME, "creating")
    assert _tell(cinder_double, COMPLETE) == 202
    cinder_double.wait_status(SNAPSHOT, "available")
    cinder_double.add_snapshot(SNAPSHOT, VOLUME, "deleting")
    assert _tell(cinder_double, {"status": "deleting",
                                 "progress": "0%"}) == 202
    assert cinder_double.snapshots[SNAPSHOT] == "deleting"
    assert _tell(cinder_double, {
        "status": "deleting_compute_complete", "progress": "90%",
        "file_format": {f"volume-{VOLUME}": "raw"}}) == 202
    cinder_double.wait_status(SNAPSHOT, "gone")
    assert cinder_double.accepted(SNAPSHOT)[0] == COMPLETE
    assert not cinder_double.violations


@pytest.mark.parametrize("update", [
    {"status": "creating", "progress": "90%"},
    {"status": "creating"},
    {"status": "available"},
    {"status": "creating_compute_complete", "progress": "90%"},
    {**COMPLETE, "progress": "100%"},
    {**COMPLETE, "file_format": {}},
    {**COMPLETE, "file_format": {f"/srv/{FILE}": "qcow2"}},
    {**COMPLETE, "file_format": {FILE: "vmdk"}},
    {**COMPLETE, "extra": 1},
    {"status": "error", "progress": "90%"},
    {"status": "error", "file_format": {FILE: "qcow2"}},
    {"status": "deleting_compute_complete", "progress": "90%",
     "file_format": {FILE: "qcow2"}},
    "creating_compute_complete",
])
def test_the_double_takes_nothing_else(cinder_double: CinderDouble,
                                       update: object) -> None:
    cinder_double.add_snapshot(SNAPSHOT, VOLUME, "creating")
    assert _tell(cinder_double, update) == 400
    assert cinder_double.snapshots[SNAPSHOT] == "creating"
    assert cinder_double.updates(SNAPSHOT)[0].body == {ACTION: update}


def test_the_double_speaks_stock_when_asked() -> None:
    with CinderDouble(STOCK) as double:
        double.add_snapshot(SNAPSHOT, VOLUME, "creating")
        assert _tell(double, COMPLETE) == 400
        assert _tell(double, {"status": "creating",
                              "progress": "90%"}) == 202
        assert double.snapshots[SNAPSHOT] == "available"


def test_the_double_fails_on_demand(cinder_double: CinderDouble) -> None:
    cinder_double.add_snapshot(SNAPSHOT, VOLUME, "creating")
    for code in (400, 401, 403, 404, 500, 503):
        cinder_double.fail(code)
        assert _tell(cinder_double, COMPLETE) == code
    cinder_double.fail(0)
    with pytest.raises(requests.ConnectionError):
        _tell(cinder_double, COMPLETE)
    cinder_double.tokens = {"good"}
    assert _tell(cinder_double, COMPLETE, "old") == 401
    cinder_double.down()
    with pytest.raises(requests.ConnectionError):
        _tell(cinder_double, COMPLETE, "good")
    cinder_double.up()
    cinder_double.slow(0.3)
    began = time.monotonic()
    # Applied, but the sender is not told so; then it asks again.
    cinder_double.fail(503, applied=True)
    assert _tell(cinder_double, COMPLETE, "good") == 503
    assert time.monotonic() - began >= 0.3
    assert cinder_double.snapshots[SNAPSHOT] == "available"
    assert _tell(cinder_double, COMPLETE, "good") == 400


# --- what is left behind -----------------------------------------------------

def test_a_killed_run_leaves_nothing_that_the_next_does_not_remove(
        tmp_path: Path) -> None:
    program = tmp_path / "run.py"
    program.write_text(
        "import os, sys, time\n"
        "from tests.lab.glance import Glance\n"
        "with Glance() as glance:\n"
        "    print(glance.path, glance.process.pid, flush=True)\n"
        "    time.sleep(120)\n")
    run = subprocess.Popen(
        [sys.executable, program], stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(openstack.TOP)})
    assert run.stdout is not None
    path, pid = run.stdout.readline().split()
    run.send_signal(signal.SIGKILL)
    run.wait(10)
    run.stdout.close()
    wait_until(lambda: not Path("/proc", pid).exists(), 60,
               "the killed run's Glance to end")
    # Killed, it cannot have removed its folder; who starts next does, and
    # that may be another process of the same tests.
    with CinderDouble(), Glance():
        assert not Path(path).exists()
