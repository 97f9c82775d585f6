# SPDX-License-Identifier: Apache-2.0
"""The domains on paper are read as real ones are."""

from stillframe.conf import CONF
from tools.bench import population
from tools.bench import stack


def test_domains_are_complete_distinct_and_always_the_same():
    _looks, kept = population.surveyed(CONF, population.Host(3, 5))
    changes = kept.changes()
    assert [one['uuid'] for one in changes.servers] == [
        population.server_id(3, number) for number in range(5)]
    assert {one['name'] for one in changes.servers} == {
        f'server-3-{number}' for number in range(5)}
    assert {one['project_id'] for one in changes.servers} == {stack.PROJECT}
    assert all(len(one['volumes']) == 2 for one in changes.servers)
    again = population.surveyed(CONF, population.Host(3, 5))[1]
    assert again.changes().digest == changes.digest
