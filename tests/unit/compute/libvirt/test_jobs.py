# SPDX-License-Identifier: Apache-2.0
"""What libvirt says of jobs in moments that no test can hit."""

import libvirt
import pytest

from stillframe.compute.libvirt import jobs
from stillframe.compute.libvirt.troubles import AgentTrouble


def refusal(text: str) -> libvirt.libvirtError:
    """Make an error of libvirt's."""
    error = libvirt.libvirtError('virDomainGetJobInfo() failed')
    error.err = (libvirt.VIR_ERR_INTERNAL_ERROR, 10, text, 2, None, None,
                 None, -1, -1)
    error.args = (text,)
    return error


class Domain:
    """One that refuses to tell of its job."""

    def __init__(self, text: str):
        self._text = text

    def jobInfo(self) -> list[int]:  # noqa: N802
        raise refusal(self._text)


def test_a_backup_job_that_begins_or_ends():
    domain = Domain('internal error: backup job data missing')
    assert jobs.operation(domain) == libvirt.VIR_DOMAIN_JOB_OPERATION_BACKUP
    assert 'a backup' in jobs.at_work(domain, [])


def test_another_error_is_no_job():
    with pytest.raises(AgentTrouble, match='something else'):
        jobs.operation(Domain('internal error: something else'))
