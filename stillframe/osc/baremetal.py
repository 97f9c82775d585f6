# SPDX-License-Identifier: Apache-2.0
"""``openstack baremetal node snapshot``, beside the commands of ironicclient.

ironicclient knows no microversion beyond its own latest, so the request is
sent with a version of its own.
"""

import argparse
from collections.abc import Sequence
from typing import Any

from osc_lib.command import command

# First microversion with the verb snapshot.
_VERSION = {'X-OpenStack-Ironic-API-Version': '1.116'}
_SHOWN = ('uuid', 'node_uuid', 'image_ref', 'phase', 'bytes_done',
          'bytes_total', 'outcome', 'reason', 'consistency', 'size',
          'checksum')


def _device(text: str) -> str | dict[str, str]:
    """Read "root", or hints: ``serial=ABC,vendor=Acme``."""
    if text == 'root':
        return text
    hints = dict(pair.partition('=')[::2] for pair in text.split(','))
    if '' in hints or '' in hints.values():
        raise argparse.ArgumentTypeError(
            f'{text!r} is neither "root" nor hints like '
            'serial=ABC,vendor=Acme')
    return hints


class SnapshotBaremetalNode(command.ShowOne):
    """Snapshot the disk of an active bare metal node to an image"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Describe the arguments."""
        parser = super().get_parser(prog_name)
        parser.add_argument('node', metavar='<node>',
                            help='Name or UUID of the node')
        parser.add_argument(
            '--image', metavar='<image>', required=True,
            help='UUID of an image that is queued, or a file:// or https:// '
                 'URL that the service allows')
        parser.add_argument('--disk-format', choices=('qcow2', 'raw'),
                            help='Format of the image (default: qcow2)')
        parser.add_argument('--compress', action='store_true',
                            help='Compress the image (zstd)')
        parser.add_argument(
            '--skip-free-space', action='store_true',
            help='Leave out what the file systems say is free')
        parser.add_argument(
            '--device', metavar='root|<hint>=<value>[,...]', type=_device,
            help='The disk (default: root, the root disk of the node)')
        parser.add_argument('--transport',
                            choices=('webdav', 'davfs', 'nfs'),
                            help='How the image is sent (default: webdav)')
        parser.add_argument(
            '--on-read-error', choices=('stop', 'zero'),
            help='What to do with bad sectors (default: stop)')
        parser.add_argument(
            '--wait', type=int, metavar='<seconds>', nargs='?', const=0,
            help='Wait until the node is active again; at most so long')
        return parser

    def take_action(self, parsed_args: argparse.Namespace
                    ) -> tuple[Sequence[str], Sequence[Any]]:
        """Ask for the snapshot; give how far it is."""
        # What plug-ins put there, its class does not name.
        manager: Any = self.app.client_manager
        client = manager.baremetal
        body: dict[str, Any] = {'target': 'snapshot',
                                'image_ref': parsed_args.image}
        for name in ('disk_format', 'device', 'transport', 'on_read_error'):
            value = getattr(parsed_args, name)
            if value is not None:
                body[name] = value
        for name in ('compress', 'skip_free_space'):
            if getattr(parsed_args, name):
                body[name] = True
        path = f'/v1/nodes/{parsed_args.node}'
        client.http_client.json_request(
            'PUT', f'{path}/states/provision', body=body,
            headers=dict(_VERSION))
        if parsed_args.wait is not None:
            client.node.wait_for_provision_state(
                parsed_args.node, 'active', timeout=parsed_args.wait)
        _, found = client.http_client.json_request(
            'GET', f'{path}/snapshot', headers=dict(_VERSION))
        return _SHOWN, [found[name] for name in _SHOWN]
