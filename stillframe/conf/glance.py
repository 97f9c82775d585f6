# SPDX-License-Identifier: Apache-2.0
"""Group [glance]: how to reach the Image service, and as whom.

The credentials need the right to make images for other projects (Glance's
``admin`` by default).
"""

from keystoneauth1 import loading
from oslo_config import cfg

GROUP = 'glance'
_OWN = [
    cfg.StrOpt(
        'hash_algorithm', default='sha512',
        help="Digest that is made of an image while it is sent. With the "
             "same value as Glance's own hashing_algorithm the two are "
             'compared; with another one the image is read back from '
             'Glance to compare it, which takes as long again.'),
]
OPTS = (_OWN + loading.get_auth_common_conf_options()
        + loading.get_session_conf_options()
        + loading.get_adapter_conf_options(include_deprecated=False)
        + loading.get_auth_plugin_conf_options('v3password'))


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options."""
    conf.register_opts(_OWN, group=GROUP)
    loading.register_session_conf_options(conf, GROUP)
    loading.register_auth_conf_options(conf, GROUP)
    loading.register_adapter_conf_options(
        conf, GROUP, include_deprecated=False)
    conf.set_default('service_type', 'image', group=GROUP)
