# SPDX-License-Identifier: Apache-2.0
"""Configuration: one module a group, all registered on :data:`CONF`.

The global object is used because oslo.messaging registers some of its
groups on it alone (a private ConfigOpts makes its calls fail).
"""

from oslo_config import cfg

from stillframe.conf import agent
from stillframe.conf import api
from stillframe.conf import baremetal
from stillframe.conf import cinder
from stillframe.conf import compute
from stillframe.conf import conductor
from stillframe.conf import default
from stillframe.conf import drivers
from stillframe.conf import glance
from stillframe.conf import http_basic
from stillframe.conf import images
from stillframe.conf import quiesce
from stillframe.conf import receiver
from stillframe.conf import redfish
from stillframe.conf import volume_snapshots

CONF = cfg.CONF

GROUPS = (default, agent, api, baremetal, cinder, compute, conductor, drivers,
          glance, http_basic, images, quiesce, receiver, redfish,
          volume_snapshots)

for _module in GROUPS:
    _module.register(CONF)
