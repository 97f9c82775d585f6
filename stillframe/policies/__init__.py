# SPDX-License-Identifier: Apache-2.0
"""Policy in code: one module a resource.

The rules bear the names that Nova and Ironic give the same operations, so
that an operator may use one policy file for both; only those of quiesce,
unquiesce and snapshot are names of our own.

Lookup and heartbeat have no rule: a ramdisk has no identity. What keeps
strangers away there is the state of the node, and the agent's token.
"""

import itertools

from oslo_policy import policy

from stillframe.policies import assisted_volume_snapshots
from stillframe.policies import base
from stillframe.policies import conductors
from stillframe.policies import drivers
from stillframe.policies import instance_actions
from stillframe.policies import nodes
from stillframe.policies import ports
from stillframe.policies import server_actions
from stillframe.policies import server_images
from stillframe.policies import servers
from stillframe.policies import services
from stillframe.policies import volume_attachments

_RESOURCES = (base, servers, server_actions, server_images, instance_actions,
              volume_attachments, services, assisted_volume_snapshots, nodes,
              ports, drivers, conductors)


def list_rules() -> list[policy.RuleDefault]:
    """Give all rules, for the enforcer and for the sample policy file."""
    return list(itertools.chain.from_iterable(
        resource.RULES for resource in _RESOURCES))
