# SPDX-License-Identifier: Apache-2.0
"""Which jobs are at work on a domain: of the whole of it, or of a disk."""

from collections.abc import Iterable

import libvirt

from stillframe.compute.libvirt import errors

# What libvirt says in the moments in which a backup job begins or ends: it
# has the job already, or still, and no figures of it.
_NO_FIGURES = 'backup job data missing'

_NAMES = {
    libvirt.VIR_DOMAIN_JOB_OPERATION_BACKUP: 'a backup',
    libvirt.VIR_DOMAIN_JOB_OPERATION_MIGRATION_IN: 'a migration',
    libvirt.VIR_DOMAIN_JOB_OPERATION_MIGRATION_OUT: 'a migration',
    libvirt.VIR_DOMAIN_JOB_OPERATION_SAVE: 'a save of its memory',
    libvirt.VIR_DOMAIN_JOB_OPERATION_DUMP: 'a dump of its memory',
    libvirt.VIR_DOMAIN_JOB_OPERATION_SNAPSHOT: 'a snapshot',
    libvirt.VIR_DOMAIN_JOB_OPERATION_SNAPSHOT_REVERT:
        'the way back to a snapshot',
}


def operation(domain: libvirt.virDomain) -> int | None:
    """Give what the job of a domain does; block jobs do not count.

    :return: one of libvirt's ``VIR_DOMAIN_JOB_OPERATION``; None: no job.
    :raises AgentTrouble: as libvirt has it.
    """
    try:
        if domain.jobInfo()[0] == libvirt.VIR_DOMAIN_JOB_NONE:
            return None
        return domain.jobStats().get(
            'operation', libvirt.VIR_DOMAIN_JOB_OPERATION_UNKNOWN)
    except libvirt.libvirtError as exc:
        if _NO_FIGURES in str(exc):
            return libvirt.VIR_DOMAIN_JOB_OPERATION_BACKUP
        raise errors.trouble(exc) from exc


def at_work(domain: libvirt.virDomain, targets: Iterable[str]
            ) -> str | None:
    """Say which job keeps a point in time of some disks from being taken.

    :param domain: a running one.
    :param targets: the disks.
    :return: a sentence that any user of the server may read; None: no job.
    :raises AgentTrouble: as libvirt has it.
    """
    found = operation(domain)
    if found is not None:
        return ('Another job is at work on the server: '
                f'{_NAMES.get(found, "one that its host does not name")}.')
    for target in targets:
        try:
            job = domain.blockJobInfo(target, 0)
        except libvirt.libvirtError as exc:
            raise errors.trouble(exc) from exc
        if job:
            return (f'A block job is at work on the disk {target} of the '
                    'server, such as the merge of a snapshot that is being '
                    'deleted.')
    return None
