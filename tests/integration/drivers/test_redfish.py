# SPDX-License-Identifier: Apache-2.0
"""Power, boot device and virtual media of a machine with sushy-tools."""

from collections.abc import Iterator
import http.server
import logging
import threading
from typing import Any

import pytest

from stillframe.drivers import base
from stillframe.drivers import errors
from stillframe.states import power as states
from tests.lab.processes import wait_until
from tests.lab.redfish import PASSWORD
from tests.lab.redfish import FakeMachine
from tests.lab.redfish import Redfish
from tests.unit.drivers.nodes import make_node

MACHINE = FakeMachine()
DEAF = FakeMachine(deaf=True, power='On')


@pytest.fixture(scope='module')
def bmc() -> Iterator[Redfish]:
    """A BMC of two machines, with TLS and passwords."""
    with Redfish([MACHINE, DEAF]) as one:
        yield one


@pytest.fixture(scope='module')
def iso() -> Iterator[str]:
    """The URL of something that a BMC may fetch."""
    class Files(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = self.path.endswith('.iso')
            self.send_response(200 if found else 404)
            self.send_header('Content-Length', '5')
            self.end_headers()
            self.wfile.write(b'disc!')

        def log_message(self, *_args: object) -> None:
            """Nobody reads it."""

    with http.server.ThreadingHTTPServer(('127.0.0.1', 0), Files) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield f'http://127.0.0.1:{server.server_port}/ramdisk.iso'
        server.shutdown()
        thread.join()


def node_of(bmc: Redfish, machine: FakeMachine = MACHINE,
            **changes: Any) -> dict[str, Any]:
    return make_node(driver='redfish',
                     driver_info=bmc.driver_info(machine.uuid, **changes))


@pytest.fixture
def node(bmc, drivers) -> Iterator[dict[str, Any]]:
    """A node that is off at first, and booting from its disk."""
    one = node_of(bmc)
    hardware = drivers.build(one)
    hardware.power.set_power_state(one, states.POWER_OFF)
    hardware.management.set_boot_device(one, base.DISK, persistent=True)
    return one


@pytest.fixture
def hardware(node, drivers):
    return drivers.build(node)


def test_power(node, hardware):
    power = hardware.power
    assert power.get_power_state(node) == states.POWER_OFF
    for target in (states.POWER_ON, states.POWER_ON, states.REBOOT,
                   states.SOFT_REBOOT, states.SOFT_POWER_OFF,
                   states.SOFT_POWER_OFF, states.POWER_OFF, states.REBOOT):
        assert target in power.supported_targets(node)
        power.set_power_state(node, target)
        assert power.get_power_state(node) == states.RESULT[target]


def test_nothing_is_sent_to_a_machine_that_is_there(bmc, node, hardware):
    before = bmc.log().count('ComputerSystem.Reset')
    hardware.power.set_power_state(node, states.POWER_OFF)
    hardware.power.set_power_state(node, states.SOFT_POWER_OFF)
    assert bmc.log().count('ComputerSystem.Reset') == before


def test_a_machine_that_takes_its_time(drivers):
    machine = FakeMachine()
    with Redfish([machine], power_delay=4) as bmc:
        node = node_of(bmc, machine)
        power = drivers.build(node).power
        with pytest.raises(errors.PowerStateNotReached, match='power off'):
            power.set_power_state(node, states.POWER_ON, 0.1)
        power.set_power_state(node, states.POWER_ON, 60)
        assert power.get_power_state(node) == states.POWER_ON


def test_a_system_that_does_not_listen(bmc, drivers):
    node = node_of(bmc, DEAF)
    power = drivers.build(node).power
    power.set_power_state(node, states.POWER_ON)
    for target in (states.SOFT_POWER_OFF, states.SOFT_REBOOT):
        with pytest.raises(errors.PowerStateNotReached) as caught:
            power.set_power_state(node, target, 0.3)
        assert 'did not reach "power off" within 0.3 s' in str(caught.value)
    power.set_power_state(node, states.POWER_OFF)
    assert power.get_power_state(node) == states.POWER_OFF


def test_unknown_target(node, hardware):
    with pytest.raises(errors.UnsupportedRequest):
        hardware.power.set_power_state(node, 'purple')


def test_boot_device(node, hardware):
    management = hardware.management
    assert management.get_boot_mode(node) == base.UEFI
    assert management.supported_boot_devices(node) == (
        base.DISK, base.CDROM, base.PXE)
    for device in management.supported_boot_devices(node):
        management.set_boot_device(node, device, persistent=True)
        assert management.get_boot_device(node) == base.BootDevice(
            device, True)
    with pytest.raises(errors.UnsupportedRequest):
        management.set_boot_device(node, 'floppy')


def test_virtual_media(bmc, node, hardware, iso):
    node['driver_info']['deploy_iso'] = iso
    hardware.boot.validate(node)
    # Twice, as after a conductor was killed in between.
    for _ in range(2):
        hardware.boot.prepare_ramdisk(node, {'ipa-api-url': 'http://a'})
        assert medium(bmc, hardware) == iso
        assert hardware.management.get_boot_device(node).device == base.CDROM
    for _ in range(2):
        hardware.boot.clean_up_ramdisk(node)
        assert not medium(bmc, hardware)
    # The emulator does not forget a device that was to be used once.
    hardware.boot.prepare_instance(node)
    assert hardware.management.get_boot_device(node) == base.BootDevice(
        base.DISK, True)


def test_a_medium_that_is_not_ours_stays(bmc, node, hardware, iso):
    other = {**node['driver_info'],
             'deploy_iso': iso.replace('ramdisk', 'rescue')}
    hardware.boot.prepare_ramdisk({**node, 'driver_info': other}, {})
    node['driver_info']['deploy_iso'] = iso
    hardware.boot.clean_up_ramdisk(node)
    assert medium(bmc, hardware) == other['deploy_iso']
    # But gives way when ours is needed.
    hardware.boot.prepare_ramdisk(node, {})
    assert medium(bmc, hardware) == iso
    hardware.boot.clean_up_ramdisk(node)


def medium(bmc: Redfish, hardware: Any) -> str | None:
    """Give what is in the virtual drive."""
    from stillframe.drivers.redfish.machine import Machine

    def look(system: Any) -> str | None:
        [drive] = [one for one in system.virtual_media.get_members()
                   if one.identity == 'Cd']
        return drive.image if drive.inserted else None

    return Machine(hardware.power.conf, hardware.power.shared,
                   node_of(bmc)).do('look', look)


def test_a_medium_that_cannot_be_fetched(node, hardware, iso):
    node['driver_info']['deploy_iso'] = iso + '.gone'
    with pytest.raises(errors.BMCRefused, match='take the virtual medium'):
        hardware.boot.prepare_ramdisk(node, {})
    assert hardware.management.get_boot_device(node).device == base.DISK


@pytest.mark.parametrize('auth_type', ['auto', 'basic'])
def test_ways_to_log_in(bmc, drivers, auth_type):
    node = node_of(bmc, redfish_auth_type=auth_type)
    assert drivers.build(node).power.get_power_state(node)


@pytest.mark.parametrize('auth_type', ['auto', 'basic', 'session'])
@pytest.mark.parametrize('changes', [
    {'redfish_password': 'wrong'}, {'redfish_username': 'nobody'},
    {'redfish_username': None, 'redfish_password': None}])
def test_wrong_credentials(bmc, drivers, caplog, auth_type, changes):
    caplog.set_level(logging.DEBUG)
    node = node_of(bmc, redfish_auth_type=auth_type, **changes)
    with pytest.raises(errors.BMCDenied) as caught:
        drivers.build(node).power.get_power_state(node)
    assert not caught.value.transient
    for text in (str(caught.value), caplog.text):
        assert PASSWORD not in text


def test_a_certificate_that_is_not_trusted(bmc, drivers):
    node = node_of(bmc, redfish_verify_ca=True)
    with pytest.raises(errors.BMCNotTrusted):
        drivers.build(node).power.get_power_state(node)
    node = node_of(bmc, redfish_verify_ca=False)
    assert drivers.build(node).power.get_power_state(node)


def test_a_bmc_that_lets_everybody_in(drivers):
    machine = FakeMachine(power='On')
    with Redfish([machine], tls=False, auth=False) as bmc:
        node = node_of(bmc, machine)
        power = drivers.build(node).power
        assert power.get_power_state(node) == states.POWER_ON


def test_http_where_https_is_spoken(bmc, drivers):
    node = node_of(bmc, redfish_address=bmc.url.replace('https', 'http'))
    with pytest.raises(errors.BMCUnreachable):
        drivers.build(node).power.get_power_state(node)


@pytest.mark.parametrize('system', ['/redfish/v1/Systems/nope', '', 'nope'])
def test_a_system_that_is_not_there(bmc, drivers, system):
    node = node_of(bmc, redfish_system_id=system)
    with pytest.raises(errors.InvalidDriverInfo, match='redfish_system_id'):
        drivers.build(node).power.get_power_state(node)


def test_a_bmc_that_is_started_anew(drivers, conf):
    conf.set_override('attempts', 200, group='redfish')
    conf.set_override('retry_wait', 0.2, group='redfish')
    machine = FakeMachine()
    with Redfish([machine]) as bmc:
        node = node_of(bmc, machine)
        power = drivers.build(node).power
        power.get_power_state(node)
        bmc.stop()
        done = threading.Event()

        def switch_on() -> None:
            power.set_power_state(node, states.POWER_ON)
            done.set()

        thread = threading.Thread(target=switch_on, daemon=True)
        thread.start()
        assert not done.wait(0.5)
        bmc.start()
        assert done.wait(60)
        thread.join()
        wait_until(lambda: power.get_power_state(node) == states.POWER_ON,
                   10, 'the machine to be on')


def test_no_password_in_any_log(bmc, node, hardware, iso, caplog):
    caplog.set_level(logging.DEBUG)
    node['driver_info']['deploy_iso'] = iso
    hardware.boot.prepare_ramdisk(node, {})
    hardware.power.set_power_state(node, states.POWER_ON)
    hardware.power.set_power_state(node, states.POWER_OFF)
    hardware.boot.clean_up_ramdisk(node)
    assert 'sushy' in caplog.text
    assert PASSWORD not in caplog.text
