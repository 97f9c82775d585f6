# SPDX-License-Identifier: Apache-2.0
"""Looks at the domains of the host and fills the inventory."""

import logging

from oslo_config import cfg
from oslo_log import log

from stillframe.compute import inventory as inventory_
from stillframe.compute.libvirt import domain_xml
from stillframe.compute.libvirt import host as host_
from stillframe.compute.libvirt.troubles import AgentTrouble
from stillframe.rpc import payloads

LOG = log.getLogger(__name__)


class Surveyor:
    """Turns domains into servers."""

    def __init__(self, conf: cfg.ConfigOpts, host: host_.Host,
                 inventory: inventory_.Inventory):
        self._conf = conf
        self._host = host
        self._inventory = inventory

    def full_pass(self) -> list[str]:
        """Look at all domains.

        :return: the ids of the servers that carry the lease of a freeze.
        """
        self._inventory.begin_pass()
        try:
            found = self._host.servers()
        except AgentTrouble as trouble:
            # Of a connection that is missing, who keeps it up tells.
            LOG.log(logging.WARNING if self._host.is_connected
                    else logging.DEBUG,
                    'No full pass over the domains: %s', trouble)
            return []
        self._inventory.replace(
            self._server(facts, power) for facts, power in found)
        return [facts.uuid for facts, _power in found if facts.leased]

    def look_at(self, server_id: str) -> bool:
        """Look at one domain.

        :return: whether it could be looked at.
        """
        try:
            found = self._host.server(server_id)
        except AgentTrouble as trouble:
            LOG.debug('Not looking at %s: %s', server_id, trouble)
            return False
        self._inventory.update(
            server_id, None if found is None else self._server(*found))
        return True

    def _server(self, facts: domain_xml.Facts, power_state: int
                ) -> payloads.Server:
        compute = self._conf.compute
        return {
            'uuid': facts.uuid,
            'name': facts.name,
            'domain_name': facts.domain_name,
            'project_id': facts.project_id or compute.default_project_id,
            'user_id': facts.user_id or compute.default_user_id,
            'power_state': power_state,
            'agent_state': facts.agent_state,
            'flavor': facts.flavor,
            'image_id': facts.image_id,
            'launched_at': facts.launched_at,
            'volumes': facts.volumes,
        }
