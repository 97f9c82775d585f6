# SPDX-License-Identifier: Apache-2.0
"""Asking the policy."""

from collections.abc import Mapping
import time
from typing import Any

from oslo_config import cfg
from oslo_policy import policy

from stillframe import conf as configuration
from stillframe import context
from stillframe import exceptions
from stillframe import policies
from stillframe.policies import nodes
from stillframe.policies import servers

# Seconds for which an answer is given again. oslo.policy searches all
# folders of configuration for changed files, and inspects signatures, at
# each question, which together take longer than the rest of a short request.
_FRESH = 1.0


class Enforcer:
    """Answers who may do what, from code and from the policy file.

    A change of the file takes effect within a second, without a restart.
    """

    def __init__(self, conf: cfg.ConfigOpts):
        self._enforcer = policy.Enforcer(conf)
        self._enforcer.register_defaults(policies.list_rules())
        self._enforcer.load_rules()
        # When these answers get old, and the answers by question.
        self._answers: tuple[float, dict[tuple[Any, ...], bool]] = (0.0, {})

    def allows(self, ctxt: context.RequestContext, rule: str,
               target: Mapping[Any, Any]) -> bool:
        """Tell whether a caller may do something to a target.

        :param rule: a name from the modules of this package.
        :param target: its ``project_id`` and ``user_id``, or a node's
            ``owner`` and ``lessee``.
        """
        old_at, answers = self._answers
        now = time.monotonic()
        if now >= old_at:
            answers = {}
            self._answers = now + _FRESH, answers
        creds = _credentials(ctxt)
        question = (rule, *target.items(), *creds.values())
        answer = answers.get(question)
        if answer is None:
            creds['roles'] = list(creds['roles'])
            creds['service_roles'] = list(creds['service_roles'])
            answer = bool(self._enforcer.enforce(rule, target, creds))
            answers[question] = answer
        return answer

    def check(self, ctxt: context.RequestContext, rule: str,
              target: Mapping[Any, Any] | None = None) -> None:
        """Refuse what the caller may not do.

        :param target: None: something of the caller's own project.
        :raises Forbidden: the policy says no.
        """
        if target is None:
            target = own(ctxt)
        if not self.allows(ctxt, rule, target):
            raise exceptions.Forbidden(action=rule)

    def check_server(self, ctxt: context.RequestContext, rule: str,
                     server: Mapping[Any, Any]) -> None:
        """Refuse what the caller may not do to a server.

        :param server: the server's row.
        :raises ServerNotFound: the caller may not know of the server.
        :raises Forbidden: the caller may see it but not do this to it.
        """
        target = {'project_id': server['project_id'],
                  'user_id': server['user_id']}
        if self.allows(ctxt, rule, target):
            return
        if self.allows(ctxt, servers.SHOW, target):
            raise exceptions.Forbidden(action=rule)
        raise exceptions.ServerNotFound(server=server['uuid'])

    def check_node(self, ctxt: context.RequestContext, rule: str,
                   node: Mapping[Any, Any], ident: str) -> None:
        """Refuse what the caller may not do to a node.

        :param node: the node's row.
        :param ident: by which the caller asked for it.
        :raises NodeNotFound: the caller may not know of the node.
        :raises Forbidden: the caller may see it but not do this to it.
        """
        target = node_target(node)
        if self.allows(ctxt, rule, target):
            return
        if self.allows(ctxt, nodes.GET, target):
            raise exceptions.Forbidden(action=rule)
        raise exceptions.NodeNotFound(node=ident)


def node_target(node: Mapping[Any, Any]) -> dict[str, str]:
    """Give what the policy has to know of a node.

    A node without an owner is nobody's: not that of a caller without a
    project, which a rule would otherwise take for the same.
    """
    return {'owner': node['owner'] or '', 'lessee': node['lessee'] or ''}


def own(ctxt: context.RequestContext) -> dict[str, Any]:
    """Give the target that is the caller's own project."""
    return {'project_id': ctxt.project_id, 'user_id': ctxt.user_id}


def _credentials(ctxt: context.RequestContext) -> dict[str, Any]:
    """Give what rules are checked against; plain, as it is built often."""
    return {
        'user_id': ctxt.user_id,
        'user_domain_id': ctxt.user_domain_id,
        'project_id': ctxt.project_id,
        'project_domain_id': ctxt.project_domain_id,
        'domain_id': ctxt.domain_id,
        'system_scope': ctxt.system_scope,
        'roles': tuple(ctxt.roles),
        'service_roles': tuple(ctxt.service_roles),
        'is_admin_project': ctxt.is_admin_project,
    }


def get_enforcer() -> policy.Enforcer:
    """Give an enforcer for oslo.policy's command line tools."""
    enforcer = policy.Enforcer(configuration.CONF)
    enforcer.register_defaults(policies.list_rules())
    return enforcer
