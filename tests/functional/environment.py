# SPDX-License-Identifier: Apache-2.0
"""A whole API over SQLite, with RPC inside the process and no network.

At the other end of the RPC is a recorder in the place of the compute
worker: it notes what was cast and answers nothing, so that a test sees the
state in which the API leaves a server.
"""

from collections.abc import Iterator
import configparser
import contextlib
import os
import shutil
import tempfile
from typing import Any

from keystoneauth1 import loading
import oslo_messaging

from stillframe.api import app
from stillframe.conductor import volume_manager
from stillframe.conductor import volume_snapshots
from stillframe.conf import CONF
from stillframe.conf import cinder
from stillframe.conf import glance
from stillframe.db import base
from stillframe.db import migration
from stillframe.rpc import transport
from stillframe.rpc import versions
from tests.functional import node_population
from tests.functional import population


class Recorder:
    """Takes the place of a compute worker."""

    target = oslo_messaging.Target(version=versions.COMPUTE_VERSION)

    def __init__(self) -> None:
        self.casts: list[tuple[str, str, dict[str, Any]]] = []

    def quiesce_server(self, ctxt, server_id, **kwargs):
        """Note a cast."""
        self.casts.append(('quiesce_server', server_id, kwargs))

    def unquiesce_server(self, ctxt, server_id, **kwargs):
        """Note a cast."""
        self.casts.append(('unquiesce_server', server_id, kwargs))

    def reset_server(self, ctxt, server_id, **kwargs):
        """Note a cast."""
        self.casts.append(('reset_server', server_id, kwargs))

    def image_server(self, ctxt, image):
        """Note a cast."""
        self.casts.append(('image_server', image['server_id'], image))

    def snapshot_volume(self, ctxt, snapshot):
        """Note a cast."""
        self.casts.append(('snapshot_volume', snapshot['server_id'],
                           snapshot))


class BaremetalRecorder:
    """Takes the place of a conductor that looks after nodes.

    :ivar answers: what it answers to calls, by method.
    """

    target = oslo_messaging.Target(version=versions.BAREMETAL_VERSION)

    def __init__(self) -> None:
        self.casts: list[tuple[str, str, dict[str, Any]]] = []
        self.answers: dict[str, Any] = {
            'validate_node': {'power': {'result': True},
                              'boot': {'result': False, 'reason': 'no'}},
            'get_boot_device': {'error': None, 'boot_device': 'pxe',
                                'persistent': False},
            'set_boot_device': {'error': None},
        }

    def _note(self, method: str, node_id: str, kwargs: dict[str, Any]
              ) -> Any:
        self.casts.append((method, node_id, kwargs))
        return self.answers.get(method)

    def reach(self, ctxt):
        """Do nothing."""

    def do_node_snapshot(self, ctxt, node_id, **kwargs):
        """Note a cast."""
        self._note('do_node_snapshot', node_id, kwargs)

    def do_provisioning_action(self, ctxt, node_id, **kwargs):
        """Note a cast."""
        self._note('do_provisioning_action', node_id, kwargs)

    def change_node_power_state(self, ctxt, node_id, **kwargs):
        """Note a cast."""
        self._note('change_node_power_state', node_id, kwargs)

    def heartbeat(self, ctxt, node_id, **kwargs):
        """Note a cast."""
        self._note('heartbeat', node_id, kwargs)

    def validate_node(self, ctxt, node_id):
        """Answer a call."""
        return self._note('validate_node', node_id, {})

    def get_boot_device(self, ctxt, node_id):
        """Answer a call."""
        return self._note('get_boot_device', node_id, {})

    def set_boot_device(self, ctxt, node_id, **kwargs):
        """Answer a call."""
        return self._note('set_boot_device', node_id, kwargs)


class Environment:
    """What a test works with.

    :ivar app: the WSGI application.
    :ivar recorder: takes what the API casts to host-a.
    :ivar baremetal: takes what it casts to the conductor of nodes.
    :ivar folder: for files of the test; removed at the end.
    """

    def __init__(self, wsgi: Any, recorder: Recorder,
                 baremetal: BaremetalRecorder, folder: str):
        self.app = wsgi
        self.recorder = recorder
        self.baremetal = baremetal
        self.folder = folder


@contextlib.contextmanager
def environment(populate: bool = True, conductor: bool = True,
                nodes: bool = False, **options: Any) -> Iterator[Environment]:
    """Give an API; everything is gone afterwards.

    :param populate: put the servers of the population into the database.
    :param conductor: have one that takes volume snapshots.
    :param nodes: put bare-metal nodes into the database, and have the place
        of their conductor taken.
    :param options: ``group__name=value``; without a group ``name=value``.
    """
    folder = tempfile.mkdtemp(prefix='sf-')
    options = {'api__auth_strategy': 'noauth',
               # The worker that is up reported once, at the beginning.
               'api__service_down_time': 3600,
               'transport_url': 'inproc://',
               'drivers__enabled_hardware_types': 'fake-hardware',
               'images__folder': f'{folder}/images',
               'database__connection': f'sqlite:///{folder}/test.sqlite',
               **options}
    recorder = Recorder()
    baremetal = BaremetalRecorder()
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, folder)
        stack.callback(forget_accounts)
        stack.callback(CONF.reset)
        CONF([], project='stillframe', default_config_dirs=[],
             default_config_files=[_configuration(folder, options)])
        stack.callback(base.dispose)
        base.configure(CONF)
        if populate:
            migration.upgrade()
            population.populate()
            if nodes:
                node_population.populate()
        stack.callback(transport.cleanup)
        if options['transport_url'] == 'inproc://':
            _serve(stack, versions.COMPUTE_TOPIC, population.HOST_UP,
                   recorder)
            if conductor:
                _conductor(stack)
            if nodes:
                _serve(stack, versions.BAREMETAL_TOPIC,
                       node_population.CONDUCTOR, baremetal)
        yield Environment(app.build_app(CONF), recorder, baremetal, folder)


def forget_accounts() -> None:
    """Take back what was registered for the accounts at other services.

    That happens when they are first used. Some of it is required, so that
    no configuration without it could be read in this process any more.
    """
    for group in ('keystone_authtoken', cinder.GROUP, glance.GROUP):
        if group in CONF and 'auth_url' in CONF[group]:
            CONF.unregister_opts(
                loading.get_auth_plugin_conf_options('password'), group)


def _conductor(stack: contextlib.ExitStack) -> None:
    """Run the part of a conductor that the API calls."""
    _serve(stack, versions.CONDUCTOR_TOPIC, 'conductor',
           volume_manager.VolumeManager(
               volume_snapshots.VolumeSnapshots(CONF)))


def _serve(stack: contextlib.ExitStack, topic: str, host: str,
           endpoint: Any) -> None:
    server = transport.get_server(CONF, topic, host, [endpoint])
    server.start()
    stack.callback(server.wait)
    stack.callback(server.stop)


def _configuration(folder: str, options: dict[str, Any]) -> str:
    """Write a configuration file; give its path."""
    parser = configparser.RawConfigParser(default_section='')
    for name, value in options.items():
        group, _, option = name.rpartition('__')
        section = group or 'DEFAULT'
        if not parser.has_section(section):
            parser.add_section(section)
        parser.set(section, option, str(value))
    path = os.path.join(folder, 'stillframe.conf')
    with open(path, 'w', encoding='utf-8') as target:
        parser.write(target)
    return path
