# SPDX-License-Identifier: Apache-2.0
"""Booting a ramdisk over the network with iPXE.

DHCP is the operator's: it leads the machine to an iPXE that loads
``/boot/ipxe/{mac}`` from our API. The script there is made here. Anybody on
the network can read it, so no secret may be in it.
"""

from collections.abc import Mapping

from stillframe.drivers import base
from stillframe.drivers import driver_info
from stillframe.drivers import errors
from stillframe.drivers.driver_info import Property

#: Where the files may be; iPXE can fetch from all of these.
SCHEMES = ('http', 'https', 'tftp')
KERNEL = Property(
    'deploy_kernel', "URL (http, https or tftp) of the ramdisk's kernel.",
    required=True)
RAMDISK = Property(
    'deploy_ramdisk', 'URL (http, https or tftp) of the ramdisk.',
    required=True)
APPEND = Property(
    'kernel_append_params', 'More parameters for the kernel, such as '
    '"console=ttyS0".')
# How often iPXE tries to load both files, and the seconds in between. Then
# it gives way to the next boot device, and the node is found silent.
_ATTEMPTS = 5
_PAUSE = 5


class IPXEBoot(base.BootInterface):
    """Boots the ramdisk from the network."""

    properties = (KERNEL, RAMDISK, APPEND)

    def validate(self, node: base.Node) -> None:
        """See the base class."""
        script(node, {})

    def prepare_ramdisk(self, node: base.Node,
                        params: Mapping[str, str]) -> None:
        """See the base class. The API serves the script."""
        script(node, params)
        self.management.set_boot_device(node, base.PXE)

    def clean_up_ramdisk(self, node: base.Node) -> None:
        """Nothing is kept: the API serves by the node's state."""


def script(node: base.Node, params: Mapping[str, str]) -> str:
    """Write the script that boots the ramdisk.

    :param params: kernel parameters by name; no secrets.
    :raises MissingDriverInfo: see there.
    :raises InvalidDriverInfo: see there. Nothing that could begin another
        line or another word gets into the script.
    """
    uuid, info = node['uuid'], node['driver_info']
    driver_info.require(uuid, info, IPXEBoot.properties)
    kernel = driver_info.url(uuid, info, KERNEL.key, SCHEMES)
    ramdisk = driver_info.url(uuid, info, RAMDISK.key, SCHEMES)
    words = [_word(uuid, name, value) for name, value in params.items()]
    line = ' '.join(['initrd=ramdisk', *words, 'BOOTIF=${mac}',
                     _append(node)]).strip()
    return f"""#!ipxe
# Node {uuid}
set attempt:int32 0
:again
imgfree
kernel {kernel} {line} || goto failed
initrd --name ramdisk {ramdisk} || goto failed
boot
:failed
inc attempt
iseq ${{attempt}} {_ATTEMPTS} && exit 1 ||
echo The ramdisk could not be loaded, trying again
sleep {_PAUSE}
goto again
"""


def local_boot() -> str:
    """Write the script for a machine that boots no ramdisk now."""
    return '#!ipxe\nexit 1\n'


def _append(node: base.Node) -> str:
    value = node['driver_info'].get(APPEND.key) or ''
    if not isinstance(value, str) or not value.isprintable():
        raise errors.InvalidDriverInfo(
            node=node['uuid'], key=APPEND.key,
            reason='it has to be a string on one line.')
    if {'||', '&&'}.intersection(value.split()):
        raise errors.InvalidDriverInfo(
            node=node['uuid'], key=APPEND.key,
            reason='iPXE would take || and && for its own.')
    return value.strip()


def _word(uuid: str, name: str, value: str) -> str:
    word = f'{name}={value}'
    if not word.isprintable() or ' ' in word:
        raise errors.DriverError(
            node=uuid, reason=f'the kernel parameter {name!r} is not one '
            'word.')
    return word
