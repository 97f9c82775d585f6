# SPDX-License-Identifier: Apache-2.0
"""Asking the policy: defaults, files, and answers that are given again."""

import threading

from oslo_config import cfg
import pytest

from stillframe import context
from stillframe import exceptions
from stillframe import policies
from stillframe.policies import enforcer
from stillframe.policies import server_actions
from stillframe.policies import servers

PROJECT = 'a' * 32
SERVER = {'uuid': 'u', 'project_id': PROJECT, 'user_id': 'c' * 32}


def caller(*roles, project=PROJECT, **more):
    """The context of somebody with roles in a project."""
    return context.RequestContext(
        user_id='somebody', project_id=project, roles=list(roles),
        overwrite=False, **more)


@pytest.fixture
def rules(tmp_path):
    """An enforcer, and the path of its file, which is not there yet."""
    path = tmp_path / 'policy.yaml'
    settings = tmp_path / 'stillframe.conf'
    settings.write_text(f'[oslo_policy]\npolicy_file = {path}\n')
    conf = cfg.ConfigOpts()
    conf([], project='stillframe', default_config_files=[str(settings)],
         default_config_dirs=[])
    return enforcer.Enforcer(conf), path


def test_refusals(rules):
    made, _ = rules
    made.check_server(caller('reader'), servers.SHOW, SERVER)
    with pytest.raises(exceptions.Forbidden):
        made.check_server(caller('reader'), server_actions.QUIESCE, SERVER)
    with pytest.raises(exceptions.ServerNotFound):
        made.check_server(caller('reader', project='b' * 32),
                          server_actions.QUIESCE, SERVER)
    made.check_server(caller('service', project='b' * 32),
                      server_actions.QUIESCE, SERVER)


def test_an_answer_is_for_one_caller(rules):
    made, _ = rules
    assert made.allows(caller('admin'), servers.SHOW, SERVER)
    assert not made.allows(caller('guest'), servers.SHOW, SERVER)
    assert made.allows(caller('reader'), servers.SHOW, SERVER)
    assert not made.allows(caller('reader', project='b' * 32),
                           servers.SHOW, SERVER)
    assert not made.allows(caller('admin', system_scope='all'),
                           servers.SHOW, SERVER)
    assert not made.allows(caller('reader', 'member'),
                           server_actions.QUIESCE, SERVER)


def test_who_has_no_project_owns_nothing_of_no_project(rules):
    made, _ = rules
    nobody = caller('reader', project=None, domain_id='default')
    with pytest.raises(exceptions.Forbidden):
        made.check(nobody, servers.INDEX)


def test_a_changed_file_takes_effect(rules):
    made, path = rules
    member = caller('member', 'reader')
    assert not made.allows(member, server_actions.QUIESCE, SERVER)
    path.write_text(f'"{server_actions.QUIESCE}": "role:member"\n')
    pause = threading.Event()
    for _ in range(100):
        if made.allows(member, server_actions.QUIESCE, SERVER):
            break
        pause.wait(0.1)
    assert made.allows(member, server_actions.QUIESCE, SERVER)


def test_each_rule_is_documented_and_of_projects():
    for rule in policies.list_rules():
        assert rule.description
        assert rule.scope_types == ['project']


def test_names_are_there_once():
    names = [rule.name for rule in policies.list_rules()]
    assert len(names) == len(set(names))


def test_the_tools_of_oslo_policy_find_the_rules():
    assert servers.SHOW in enforcer.get_enforcer().registered_rules
