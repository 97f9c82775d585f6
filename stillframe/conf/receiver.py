# SPDX-License-Identifier: Apache-2.0
"""Group [receiver]: how a conductor receives images from ramdisks."""

from oslo_config import cfg

GROUP = 'receiver'
OPTS = [
    cfg.HostAddressOpt(
        'host', default='127.0.0.1',
        help='Address on which images are received: the one of this host '
             'that ramdisks reach. With 0.0.0.0 or :: public_url has to be '
             'set, since agents have to be told where to.'),
    cfg.PortOpt(
        'port', default=0,
        help='Port on which images are received. 0: the first free one of '
             '6390 to 6489, and the same again after a restart. Behind a '
             'firewall a fixed one has to be let through.'),
    cfg.URIOpt(
        'public_url', schemes=['http', 'https'],
        help='What agents are told instead of https://host:port, such as '
             'the address of a web server in front; without a path.'),
    cfg.BoolOpt(
        'web_server', default=False,
        help='A web server in front receives the images, on the disk of '
             'path: etc/stillframe/receiver-nginx.conf is one. It asks here '
             'whether it may. For more than some hundred MB/s at once; '
             'agents can use the transport webdav alone then.'),
    cfg.BoolOpt(
        'tls', default=True,
        help='Speak TLS. Without it images and credentials cross the '
             'network in the clear: only behind a web server on this host '
             'that does it instead.'),
    cfg.StrOpt(
        'certificate',
        help='File with the certificate of the receiver in PEM, and those '
             'between it and its CA. Unset: one is made and kept in path. '
             'With a wrong name in it no agent sends anything.'),
    cfg.StrOpt(
        'private_key',
        help='File with the private key of the certificate in PEM, without '
             'a passphrase.'),
    cfg.StrOpt(
        'ca',
        help='File with the certificate in PEM that agents trust: the CA '
             'of certificate, or of the web server that public_url names. '
             'Unset with a certificate: agents trust what their ramdisk '
             'trusts.'),
    cfg.StrOpt(
        'path', default='$state_path/transfers',
        help='Folder of the images on their way. An image stays here until '
             'it is verified and in the image store, so it has to hold as '
             'many as are made at once. Each conductor needs its own; on a '
             'local disk.'),
    cfg.StrOpt(
        'share_url',
        help='NFS share that ramdisks mount for snapshots with the '
             'transport nfs, as nfs://host/folder. Unset: this transport '
             'fails. Anybody who can mount it can read and spoil images '
             'while they are made: export it to the network of ramdisks '
             'alone, with all_squash and the user of this conductor.'),
    cfg.StrOpt(
        'share_path',
        help='Folder of this host that share_url is. Images are copied '
             'from there into path, so both need room for them.'),
    cfg.IntOpt(
        'min_free', default=1024, min=0,
        help='MiB that have to stay free where path is. An image that '
             'would leave less is refused before its first byte.'),
    cfg.FloatOpt(
        'compressed_share', default=1.0, min=0.0, max=1.0,
        help='Share of its announced size that has to be free for a '
             'compressed image. How small it becomes nobody knows before: '
             'with 1 it has room for certain; with less, larger disks are '
             'taken and an image may fail in the middle for want of room.'),
    cfg.IntOpt(
        'connections', default=32, min=2,
        help='Connections at once; each costs a thread. One more costs the '
             'one that has waited longest without a valid credential.'),
    cfg.FloatOpt(
        'request_timeout', default=20.0, min=1.0,
        help='Seconds in which a connection has to come to a complete '
             'request with a valid credential; then it is closed.'),
    cfg.FloatOpt(
        'silence_timeout', default=60.0, min=1.0,
        help='Seconds without a byte of an image after which its upload is '
             'cut off and what came of it removed. The agent may begin '
             'again.'),
    cfg.IntOpt(
        'verify_memory', default=2048, min=256,
        help='MiB of address space that qemu-img may use to verify an '
             'image. It needs two bytes for each 64 KiB of the file, '
             'besides some hundred MiB for itself; too low, and large '
             'images are taken for bad.'),
    cfg.FloatOpt(
        'verify_timeout', default=3600.0, min=1.0,
        help='Seconds for which qemu-img may verify an image. It reads the '
             'tables, not the data: usually seconds.'),
]


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options."""
    conf.register_opts(OPTS, group=GROUP)
