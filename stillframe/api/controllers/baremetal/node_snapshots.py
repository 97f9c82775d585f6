# SPDX-License-Identifier: Apache-2.0
"""/v1/nodes/{ident}/snapshot and …/history: what became of snapshots."""

from collections.abc import Mapping
from typing import Any

from stillframe import exceptions
from stillframe.api import baremetal_versions as versions
from stillframe.api import request
from stillframe.api.controllers import base
from stillframe.api.controllers.baremetal import common
from stillframe.api.schemas import query as query_schema
from stillframe.api.schemas.baremetal import queries
from stillframe.api.views.baremetal import links
from stillframe.api.views.baremetal import snapshots as views
from stillframe.db import node_snapshots as db
from stillframe.policies import nodes as policies

_HISTORY: query_schema.Schema = {
    'detail': query_schema.boolean,
    'limit': queries.size,
    'marker': query_schema.text,
}


class NodeSnapshotsController:
    """Tells how far a snapshot is, and what the others came to."""

    def __init__(self, services: base.Services):
        self._services = services

    @base.expose
    def show(self, req: request.Request, resp: Any,
             ident: str) -> dict[str, Any]:
        """Show the snapshot under way, else the last one."""
        versions.require(req.minor, versions.SNAPSHOT,
                         'The snapshot of a node')
        node = common.read_node(req, self._services, ident,
                                policies.HISTORY)
        if node['snapshot_id'] is None:
            raise exceptions.NotFound(
                f'Node {node["uuid"]} was never snapshotted.')
        row = db.get(node['snapshot_id'])
        if not self._theirs(req, node, row):
            raise exceptions.NotFound(
                f'The last snapshot of node {node["uuid"]} was made in '
                'another project.')
        return views.full(row)

    @base.expose
    def history(self, req: request.Request, resp: Any,
                ident: str) -> dict[str, Any]:
        """List the snapshots of a node, the newest first."""
        versions.require(req.minor, versions.HISTORY,
                         'The history of a node')
        query = query_schema.parse(req, _HISTORY, versions.MIN)
        node = common.read_node(req, self._services, ident,
                                policies.HISTORY)
        limit = queries.limit(query, self._services.conf.api.max_limit)
        marker = query_schema.last(query, 'marker')
        try:
            rows = db.history(node['uuid'], limit, marker,
                              self._only(req, node))
        except exceptions.NotFound:
            raise exceptions.BadRequest(
                f'marker [{marker}] not found') from None
        base_url = common.link_base(req, self._services)
        detail = query_schema.last(query, 'detail', False)
        document: dict[str, Any] = {'history': [
            views.event(row, base_url, req.minor, detail) for row in rows]}
        if len(rows) == limit:
            document['next'] = links.next_page(
                base_url, f'nodes/{ident}/history', req.GET.items(), limit,
                rows[-1]['uuid'])
        return document

    @base.expose
    def entry(self, req: request.Request, resp: Any, ident: str,
              entry_id: str) -> dict[str, Any]:
        """Show one of them."""
        versions.require(req.minor, versions.HISTORY,
                         'The history of a node')
        node = common.read_node(req, self._services, ident,
                                policies.HISTORY)
        row = db.get(entry_id)
        if (row['node_uuid'] != node['uuid']
                or not self._theirs(req, node, row)):
            raise exceptions.NotFound(what=f'Snapshot {entry_id}')
        return views.event(row, common.link_base(req, self._services),
                           req.minor, detail=True)

    def _only(self, req: request.Request, node: Mapping[Any, Any]
              ) -> str | None:
        """Give the project whose snapshots a caller sees; None: of all.

        Who leases a node does not see what became of the snapshots of
        those that had it before.
        """
        if common.shows_hardware(self._services, req.ctxt, node):
            return None
        return req.ctxt.project_id or ''

    def _theirs(self, req: request.Request, node: Mapping[Any, Any],
                row: Mapping[Any, Any]) -> bool:
        return self._only(req, node) in (None, row['project_id'])
