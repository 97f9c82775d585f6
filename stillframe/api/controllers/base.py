# SPDX-License-Identifier: Apache-2.0
"""What all controllers share."""

import dataclasses
import functools
from typing import Any

from oslo_config import cfg
import pecan

from stillframe.api import workers
from stillframe.clients import images
from stillframe.db import ring
from stillframe.drivers import factory
from stillframe.policies import enforcer
from stillframe.rpc import baremetal_api
from stillframe.rpc import compute_api
from stillframe.rpc import conductor_api

#: Decorates the methods that routing may choose.
expose = pecan.expose('json', content_type='application/json')


@dataclasses.dataclass(frozen=True)
class Services:
    """What controllers work with; made once for an application."""

    conf: cfg.ConfigOpts
    policy: enforcer.Enforcer
    compute: compute_api.ComputeAPI
    conductor: conductor_api.ConductorAPI
    workers: workers.Workers
    images: images.Store
    baremetal: baremetal_api.BaremetalAPI
    ring: ring.Ring

    @functools.cached_property
    def drivers(self) -> factory.Factory:
        """The hardware types of nodes.

        Loaded when a node is first asked for: where there are servers
        alone, they would cost memory for nothing.

        :raises ConfigError: what is enabled cannot be loaded.
        """
        return factory.Factory(self.conf)


def accepted(resp: pecan.Response) -> pecan.Response:
    """Give the response 202 without a body."""
    resp.status = 202
    resp.content_type = None
    return resp


def target(row: Any) -> dict[str, str]:
    """Give what the policy has to know of a server."""
    return {'project_id': row['project_id'], 'user_id': row['user_id']}
