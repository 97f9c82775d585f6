# SPDX-License-Identifier: Apache-2.0
"""BMCs as they can be: few sessions, odd functions, rubbish, silence."""

from collections.abc import Iterator
import logging
import threading
import time

import pytest

from stillframe.drivers import base
from stillframe.drivers import errors
from stillframe.drivers.redfish import http
from stillframe.drivers.redfish import sessions
from stillframe.states import power as states
from tests.lab import bad_server
from tests.lab.processes import wait_until
from tests.lab.session_bmc import PASSWORD
from tests.lab.session_bmc import SYSTEM
from tests.lab.session_bmc import SessionBMC
from tests.unit.drivers.nodes import make_node


@pytest.fixture
def bmc() -> Iterator[SessionBMC]:
    with SessionBMC() as one:
        yield one


@pytest.fixture
def node(bmc):
    return make_node(driver='redfish', driver_info=bmc.driver_info(
        deploy_iso='http://192.0.2.1/ramdisk.iso'))


@pytest.fixture
def hardware(node, drivers):
    return drivers.build(node)


def idle_sessions(hardware):
    return list(hardware.power.shared.get(sessions.Sessions)._idle.values())


# --- sessions -----------------------------------------------------------


def test_a_session_is_used_again(bmc, node, hardware):
    for _ in range(5):
        assert hardware.power.get_power_state(node) == states.POWER_OFF
    hardware.management.get_boot_device(node)
    assert bmc.opened == 1


def test_nothing_stays_open(bmc, node, drivers):
    drivers.build(node).power.get_power_state(node)
    assert len(bmc.open) == 1
    drivers.close()
    assert not bmc.open


def test_nor_what_is_in_use_at_the_end(bmc, node, drivers):
    power = drivers.build(node).power

    def close(_method, path, _body):
        if path == SYSTEM:
            drivers.close()

    bmc.refuse = close
    power.get_power_state(node)
    assert bmc.opened == 1
    assert not bmc.open


def test_a_session_that_the_bmc_forgot(bmc, node, hardware):
    hardware.power.get_power_state(node)
    bmc.forget_sessions()
    assert hardware.power.get_power_state(node) == states.POWER_OFF
    assert bmc.opened == 2


def test_a_session_outlives_silence(bmc, node, hardware, conf):
    hardware.power.get_power_state(node)
    conf.set_override('attempts', 1, group='redfish')
    [session] = idle_sessions(hardware)
    adapter = session.connector._session.get_adapter('http://')
    adapter.patience = 0.0
    with pytest.raises(errors.BMCUnreachable, match='not in time'):
        hardware.power.get_power_state(node)
    adapter.patience = 30.0
    assert hardware.power.get_power_state(node) == states.POWER_OFF
    assert bmc.opened == 1


def test_other_credentials_are_another_session(bmc, node, hardware):
    hardware.power.get_power_state(node)
    info = {**node['driver_info'], 'redfish_password': 'wrong'}
    with pytest.raises(errors.BMCDenied):
        hardware.power.get_power_state({**node, 'driver_info': info})
    assert hardware.power.get_power_state(node)
    assert bmc.opened == 1


def test_an_old_session_is_closed(bmc, node, hardware, conf):
    hardware.power.get_power_state(node)
    [session] = idle_sessions(hardware)
    session.opened -= conf.redfish.session_age + 1
    hardware.power.get_power_state(node)
    assert bmc.opened == 2
    assert len(bmc.open) == 1


def test_a_bound_of_sessions(drivers, conf):
    conf.set_override('max_sessions', 2, group='redfish')
    with SessionBMC() as a, SessionBMC() as b, SessionBMC() as c:
        for one in (a, b, c):
            node = make_node(driver='redfish', driver_info=one.driver_info())
            drivers.build(node).power.get_power_state(node)
        assert [len(one.open) for one in (a, b, c)] == [0, 1, 1]


def test_one_session_a_thread(bmc, node, hardware):
    """None is shared, and as few are opened as are used at a time."""
    together = threading.Barrier(3, timeout=30)
    held = threading.Barrier(3, timeout=30)

    def hold(method, path, _body):
        if (method, path) == ('GET', SYSTEM) and not held.broken:
            held.wait()

    bmc.refuse = hold
    results = []

    def ask():
        together.wait()
        results.append(hardware.power.get_power_state(node))

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert results == [states.POWER_OFF] * 3
    assert bmc.opened == 3
    bmc.refuse = lambda *_request: None
    hardware.power.get_power_state(node)
    assert bmc.opened == 3


def test_no_session_to_be_had(bmc, node, hardware):
    bmc.limit = 0
    info = {**node['driver_info'], 'redfish_auth_type': 'session'}
    with pytest.raises(errors.BMCFault, match='HTTP 503') as caught:
        hardware.power.get_power_state({**node, 'driver_info': info})
    assert caught.value.transient


def test_closing_does_not_wait_for_a_dead_bmc(node, drivers):
    node = {**node}
    with SessionBMC() as bmc:
        node['driver_info'] = bmc.driver_info()
        drivers.build(node).power.get_power_state(node)
    begin = time.monotonic()
    drivers.close()
    assert time.monotonic() - begin < sessions._CLOSING_TIMEOUT + 10


# --- functions that are not as usual ----------------------------------------


def test_power_with_other_words(bmc, node, hardware):
    """There is no On, but ForceOn."""
    hardware.power.set_power_state(node, states.POWER_ON)
    assert bmc.power == 'On'
    hardware.power.set_power_state(node, states.SOFT_REBOOT)
    assert bmc.power == 'On'
    hardware.power.set_power_state(node, states.POWER_OFF)
    assert bmc.power == 'Off'


def test_a_machine_on_its_way_is_in_no_state(bmc, node, hardware):
    bmc.power = 'PoweringOn'
    assert hardware.power.get_power_state(node) is None


def test_no_override(node, hardware):
    assert hardware.management.get_boot_device(node) == base.BootDevice(
        None, None, own_order=True)
    assert hardware.management.get_boot_mode(node) == base.BIOS


def test_a_drive_of_the_manager_that_is_called_otherwise(bmc, node, hardware):
    hardware.boot.prepare_ramdisk(node, {})
    assert bmc.drive['Image'] == 'http://192.0.2.1/ramdisk.iso'
    assert bmc.boot['BootSourceOverrideTarget'] == 'UsbCd'
    assert bmc.boot['BootSourceOverrideEnabled'] == 'Once'
    assert hardware.management.get_boot_device(node) == base.BootDevice(
        base.CDROM, False)
    hardware.boot.clean_up_ramdisk(node)
    assert not bmc.drive['Inserted']


def test_the_name_of_a_medium_is_shortened(bmc, node, hardware):
    hardware.boot.prepare_ramdisk(node, {})
    bmc.drive['Image'] = 'ramdisk.iso'
    hardware.boot.clean_up_ramdisk(node)
    assert not bmc.drive['Inserted']


def test_a_medium_that_does_not_stay(bmc, node, hardware, conf):
    bmc.refuse = lambda _method, path, _body: (
        204 if path.endswith('/Insert') else None)
    hardware.power.get_power_state(node)
    # Of the wait alone: the session has its own already.
    conf.set_override('request_timeout', 1.0, group='redfish')
    with pytest.raises(errors.BMCUnintelligible, match='there is none'):
        hardware.boot.prepare_ramdisk(node, {})
    assert bmc.boot['BootSourceOverrideEnabled'] == 'Disabled'


def test_a_medium_that_cannot_be_taken_out(bmc, node, hardware, conf):
    hardware.boot.prepare_ramdisk(node, {})
    bmc.refuse = lambda _method, path, _body: (
        204 if path.endswith('/Eject') else None)
    conf.set_override('request_timeout', 1.0, group='redfish')
    with pytest.raises(errors.BMCUnintelligible, match='there is one'):
        hardware.boot.clean_up_ramdisk(node)


def test_a_drive_that_takes_its_time(bmc, node, hardware):
    serve, looks = bmc.answer, []

    def answer(method, path, key, body):
        status, headers, found = serve(method, path, key, body)
        if path.endswith('VirtualMedia/2') and bmc.drive['Inserted']:
            looks.append(path)
            if len(looks) < 3:
                found = {**found, 'Inserted': False}
        return status, headers, found

    bmc.answer = answer
    hardware.boot.prepare_ramdisk(node, {})
    assert len(looks) == 3


def test_no_drive(bmc, node, hardware):
    bmc.drive['MediaTypes'] = ['USBStick']
    with pytest.raises(errors.UnsupportedRequest,
                       match='no virtual drive for discs'):
        hardware.boot.prepare_ramdisk(node, {})


def refuse_override(bmc, enabled):
    """Have the BMC refuse one way to override the boot device."""
    bmc.refuse = lambda method, _path, body: (
        400 if method == 'PATCH'
        and body['Boot'].get('BootSourceOverrideEnabled') == enabled
        else None)


def test_no_lasting_override(bmc, node, hardware):
    """Then the disk is what the machine's own order says."""
    refuse_override(bmc, 'Continuous')
    hardware.management.set_boot_device(node, base.CDROM)
    hardware.boot.prepare_instance(node)
    assert bmc.boot['BootSourceOverrideEnabled'] == 'Disabled'
    with pytest.raises(errors.BMCRefused):
        hardware.management.set_boot_device(node, base.PXE, persistent=True)


def test_back_to_the_own_order(bmc, node, hardware):
    management = hardware.management
    own = base.BootDevice(None, None, own_order=True)
    assert management.get_boot_device(node) == own
    management.set_boot_device(node, base.CDROM)
    assert not management.get_boot_device(node).own_order
    management.follow_own_order(node)
    assert bmc.boot['BootSourceOverrideEnabled'] == 'Disabled'
    assert management.get_boot_device(node) == own


def test_no_way_back_to_the_own_order(bmc, node, hardware):
    """Then the disk is as near as can be."""
    refuse_override(bmc, 'Disabled')
    hardware.management.set_boot_device(node, base.CDROM)
    hardware.management.follow_own_order(node)
    assert hardware.management.get_boot_device(node) == base.BootDevice(
        base.DISK, True)


def test_no_override_for_the_disk(bmc, node, hardware):
    """The BMC lists what it can be told, and the disk is not there."""
    bmc.boot['BootSourceOverrideTarget@Redfish.AllowableValues'] = [
        'None', 'Pxe', 'UsbCd']
    hardware.management.set_boot_device(node, base.CDROM)
    hardware.boot.prepare_instance(node)
    assert bmc.boot['BootSourceOverrideEnabled'] == 'Disabled'
    with pytest.raises(errors.UnsupportedRequest):
        hardware.management.set_boot_device(node, base.DISK)


def test_a_machine_that_got_there_by_itself(bmc, node, hardware):
    """It went off between the look and the request."""
    bmc.power = 'On'

    def refuse(_method, path, _body):
        if path.endswith('/Reset'):
            bmc.power = 'Off'
            return 409
        return None

    bmc.refuse = refuse
    hardware.power.set_power_state(node, states.POWER_OFF)


@pytest.mark.parametrize(('status', 'error', 'sent'), [
    (400, errors.BMCRefused, 1), (404, errors.BMCRefused, 1),
    (409, errors.BMCRefused, 1), (500, errors.BMCFault, 3),
    (503, errors.BMCFault, 3),
    # A new session might have helped.
    (403, errors.BMCDenied, 2)])
def test_a_refused_request(bmc, node, hardware, caplog, status, error, sent):
    caplog.set_level(logging.INFO, 'stillframe')
    bmc.refuse = lambda _method, path, _body: (
        status if path.endswith('/Reset') else None)
    with pytest.raises(error) as caught:
        hardware.power.set_power_state(node, states.POWER_ON)
    assert type(caught.value) is error
    assert caught.value.transient is (sent == 3)
    assert bmc.count('POST', f'{SYSTEM}/Actions/Reset') == sent
    assert len(bmc.open) <= 1
    # The BMC repeats our password in its answer.
    own = [record.getMessage() for record in caplog.records
           if record.name.startswith('stillframe')]
    assert PASSWORD not in str(caught.value) + ' '.join(own)


# --- no answer, or none that makes sense ------------------------------------


def bad(server):
    return make_node(driver='redfish', driver_info={
        'redfish_address': server.url, 'redfish_system_id': '1',
        'redfish_username': 'u', 'redfish_password': PASSWORD,
        'redfish_auth_type': 'basic'})


@pytest.mark.parametrize('name', bad_server.RUBBISH)
def test_rubbish(drivers, name):
    with bad_server.BadServer(bad_server.RUBBISH[name]) as server:
        node = bad(server)
        with pytest.raises((errors.BMCUnintelligible,
                            errors.BMCUnreachable)) as caught:
            drivers.build(node).power.get_power_state(node)
    assert PASSWORD not in str(caught.value)


@pytest.mark.parametrize('behaviour', [
    bad_server.hang, bad_server.trickle(bad_server.OK + b'\r\n', b' '),
    bad_server.trickle(
        bad_server.OK + b'Transfer-Encoding: chunked\r\n\r\n',
        b'1\r\n \r\n')],
    ids=['silent', 'slow', 'slow chunks'])
def test_no_answer_in_time(drivers, conf, behaviour):
    conf.set_override('request_timeout', 0.5, group='redfish')
    with bad_server.BadServer(behaviour) as server:
        node = bad(server)
        begin = time.monotonic()
        with pytest.raises(errors.BMCUnreachable, match='(not in time)'):
            drivers.build(node).power.get_power_state(node)
        assert time.monotonic() - begin < 20
        wait_until(lambda: len(server.requests) == conf.redfish.attempts,
                   10, 'all requests to be seen')


@pytest.mark.parametrize(('behaviour', 'reason'), [
    (bad_server.reset, 'connection reset by peer'),
    (bad_server.hang_up, 'the connection broke'),
    (bad_server.say(bad_server.OK, b'Content-Length: 5\r\n\r\n{'),
     'the connection broke')],
    ids=['reset', 'hang up', 'cut off'])
def test_a_broken_answer(drivers, conf, behaviour, reason):
    with bad_server.BadServer(behaviour) as server:
        node = bad(server)
        with pytest.raises(errors.BMCUnreachable) as caught:
            drivers.build(node).power.get_power_state(node)
        assert len(server.requests) == conf.redfish.attempts
    assert f'({reason})' in str(caught.value)


def test_an_answer_without_end(drivers, monkeypatch):
    monkeypatch.setattr(http, 'LIMIT', 1 << 20)
    with bad_server.BadServer(bad_server.flood) as server:
        node = bad(server)
        with pytest.raises(errors.BMCUnintelligible, match='no end'):
            drivers.build(node).power.get_power_state(node)


def test_a_redirection(bmc, node, hardware):
    """Some BMCs insist on the slash that ends a path."""
    serve = bmc.answer

    def answer(method, path, key, body):
        if path == SYSTEM:
            return 308, {'Location': f'{path}/'}, None
        return serve(method, path.removesuffix('/') or path
                     if path.startswith(SYSTEM) else path, key, body)

    bmc.answer = answer
    hardware.power.set_power_state(node, states.POWER_ON)
    assert bmc.power == 'On'


def test_a_redirection_without_end(bmc, node, hardware):
    bmc.answer = lambda *_request: (308, {'Location': '/redfish/v1/'}, None)
    with pytest.raises(errors.BMCUnreachable):
        hardware.power.get_power_state(node)


def test_a_key_is_not_told_to_another_host(bmc, node, hardware):
    """A BMC sends us elsewhere; what is there learns nothing."""
    hardware.power.get_power_state(node)
    with bad_server.BadServer(bad_server.answer(b'{}')) as elsewhere:
        serve = bmc.answer

        def answer(method, path, key, body):
            if path == SYSTEM:
                return 307, {'Location': f'{elsewhere.url}/x'}, None
            return serve(method, path, key, body)

        bmc.answer = answer
        with pytest.raises(errors.BMCError):
            hardware.power.get_power_state(node)
        [key] = bmc.open
        assert elsewhere.requests
        assert not any(key.encode() in one or b'Authorization' in one
                       for one in elsewhere.requests)


def test_bmcs_do_not_hold_each_other_up(bmc, node, hardware, drivers, conf):
    """One that hangs holds its own worker, nobody else."""
    conf.set_override('attempts', 1, group='redfish')
    failed = threading.Event()
    with bad_server.BadServer(bad_server.hang) as server:
        hanging = bad(server)

        def ask():
            try:
                hardware.power.get_power_state(hanging)
            except errors.BMCUnreachable:
                failed.set()

        thread = threading.Thread(target=ask, daemon=True)
        thread.start()
        wait_until(lambda: server.requests, 20, 'the BMC to be asked')
        assert hardware.power.get_power_state(node) == states.POWER_OFF
        assert not failed.is_set()
    # Now it hangs up.
    thread.join(30)
    assert failed.is_set()
