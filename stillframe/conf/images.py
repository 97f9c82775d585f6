# SPDX-License-Identifier: Apache-2.0
"""Group [images]: how images of servers are made and where they go.

Read by the API and the conductor, which make and remove the records of
images, and by the compute worker, which sends the data.
"""

from oslo_config import cfg

GROUP = 'images'
OPTS = [
    cfg.StrOpt(
        'store', default='folder', choices=[
            ('folder', 'files in a folder'),
            ('glance', 'the Image service; see group [glance]')],
        help='Where images go. All processes must be told the same.'),
    cfg.StrOpt(
        'folder', default='$state_path/images',
        help='The folder of the store "folder": for each image a file of '
             'data and one of JSON beside it. With more than one host it '
             'has to be a file system that all of them share.'),
    cfg.ListOpt(
        'url_prefixes', default=[],
        help='What the image_ref of a snapshot of a bare-metal node may '
             'begin with where it is a URL: file:///srv/images, '
             'https://store.example.org/images. Conductors write below '
             'them, a file as their own user, https with PUT. None: only '
             'images of the store can be named.'),
    cfg.StrOpt(
        'url_cafile',
        help='File with the certificates in PEM that those of the web '
             'servers in url_prefixes have to be signed by. Unset: those '
             'that this host trusts.'),
    cfg.StrOpt(
        'scratch_path', default='${state_path}-scratch',
        help='Where the hypervisor keeps, while an image is being made, '
             'what the guest overwrites meanwhile: at most the size of its '
             'disks, usually little; see scratch_reserve. The user that '
             'QEMU runs as has to be able to get there (directories above '
             'it with mode 0711 will do), and the path has to be short, '
             'since a UNIX socket is below it.'),
    cfg.StrOpt(
        'point_in_time', default='backup', choices=[
            ('backup', "libvirt's backup job; overlays where it has none"),
            ('overlay', 'always overlays')],
        help='How the disks of a running server are kept as they were while '
             'they are copied. With overlays the server writes to files '
             'in scratch_path meanwhile, which are merged down afterwards: '
             'that takes longer, and they must not be lost.'),
    cfg.IntOpt(
        'scratch_reserve', default=512, min=0,
        help='MiB that have to stay free where scratch_path is. With less, '
             'images are given up: when there is no room at all for what a '
             'guest overwrites, the hypervisor pauses the guest (which the '
             'worker ends by giving up the image and resuming it).'),
    cfg.FloatOpt(
        'freeze_timeout', default=20.0, min=1.0,
        help='Seconds after which a guest that was frozen for an image is '
             'thawed whatever happened. It is frozen while a point in time '
             'is taken, not while data is copied: usually well below one '
             'second.'),
    cfg.FloatOpt(
        'volume_freeze_timeout', default=60.0, min=1.0,
        help='The same for a server with volumes: it stays frozen until '
             'Cinder has made snapshots of them, which with some back ends '
             'takes many seconds.'),
    cfg.FloatOpt(
        'silence_timeout', default=60.0, min=1.0,
        help='Seconds without a byte from the hypervisor or from the store '
             'after which an image is given up.'),
    cfg.FloatOpt(
        'max_duration', default=21600.0, min=1.0,
        help='Seconds after which an image that is still not complete is '
             'given up. Too low, and large disks can never be imaged.'),
    cfg.IntOpt(
        'at_once', default=4, min=1,
        help='Images that one compute worker makes at the same time. '
             'Further requests wait for their turn.'),
    cfg.IntOpt(
        'upload_retries', default=2, min=0,
        help='How often an upload is begun again from the same point in '
             'time when the store could not be reached or had trouble of '
             'its own.'),
    cfg.FloatOpt(
        'retry_wait', default=5.0, min=0.1,
        help='Seconds before an upload is begun again; doubled each time.'),
]


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options."""
    conf.register_opts(OPTS, group=GROUP)
