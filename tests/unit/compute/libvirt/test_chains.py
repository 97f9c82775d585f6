# SPDX-License-Identifier: Apache-2.0
"""Reading chains, planning what a request does to one, and verifying it."""

import pytest

from stillframe.compute.libvirt import chains
from stillframe.compute.libvirt.chains import ChainError
from stillframe.compute.libvirt.chains import Layer

VOLUME = '6a8d7b9e-1f0a-4d54-8a35-0b8f5a6d5f01'
RAW = Layer('/mnt/volume-1', 'raw', 1)
A = Layer('/mnt/volume-1.a', 'qcow2', 2)
B = Layer('/mnt/volume-1.b', 'qcow2', 3)
C = Layer('/mnt/volume-1.c', 'qcow2', 4)
CHAIN = (C, B, A, RAW)


def domain(*disks):
    return (f'<domain><name>d</name><uuid>{VOLUME}</uuid><devices>'
            + ''.join(disks) + '</devices></domain>')


def disk(below='<backingStore/>', serial=VOLUME, target='vda', more='',
         source="<source file='/mnt/volume-1.a' index='2'/>",
         driver="<driver name='qemu' type='qcow2'/>", kind='file'):
    return (f"<disk type='{kind}' device='disk'>{driver}{source}{below}{more}"
            f"<target dev='{target}'/><serial>{serial}</serial></disk>")


RAW_BELOW = ("<backingStore type='file' index='1'><format type='raw'/>"
             "<source file='/mnt/volume-1'/><backingStore/></backingStore>")


class TestRead:

    def test_running(self):
        found = chains.find_disk(domain(disk(RAW_BELOW)), VOLUME)
        assert found == chains.Disk('vda', (A, RAW), complete=True)
        assert found.active.name == 'volume-1.a'

    def test_stopped(self):
        """Inactive XML shows nothing below the active file."""
        found = chains.find_disk(
            domain(disk('', source="<source file='/mnt/volume-1.a'/>")),
            VOLUME)
        assert not found.complete
        assert found.chain == (Layer('/mnt/volume-1.a', 'qcow2'),)

    def test_end_of_chain_not_shown(self):
        below = RAW_BELOW.replace('<backingStore/>', '')
        found = chains.find_disk(domain(disk(below)), VOLUME)
        assert not found.complete

    def test_no_format(self):
        found = chains.find_disk(
            domain(disk(RAW_BELOW.replace("<format type='raw'/>", ''),
                        driver='')), VOLUME)
        assert [layer.format for layer in found.chain] == [None, None]

    def test_mirror(self):
        more = ("<mirror type='file' job='active-commit' ready='yes'>"
                "<format type='raw'/><source file='/mnt/volume-1'/></mirror>")
        found = chains.find_disk(domain(disk(RAW_BELOW, more=more)), VOLUME)
        assert (found.job, found.ready) == ('active-commit', True)
        found = chains.find_disk(
            domain(disk(RAW_BELOW, more=more.replace("ready='yes'", ''))),
            VOLUME)
        assert (found.job, found.ready) == ('active-commit', False)

    def test_the_right_one_of_two(self):
        other = disk(serial='6a8d7b9e-1f0a-4d54-8a35-0b8f5a6d5f02',
                     source="<source file='/mnt/other'/>")
        found = chains.find_disk(
            domain(other, disk(RAW_BELOW, target='vdb')), VOLUME)
        assert found.target == 'vdb'

    @pytest.mark.parametrize(('xml', 'says'), [
        (domain(), 'no disk'),
        (domain(disk(serial='')), 'no disk'),
        (domain(disk(), disk(target='vdb')), '2 disks'),
        (domain(disk(kind='block', source="<source dev='/dev/sda'/>")),
         'type block'),
        (domain(disk(kind='network',
                     source="<source protocol='rbd' name='x'/>")),
         'type network'),
        (domain(disk(more='<transient/>')), 'transient'),
        (domain(disk(source='<source/>')), 'not a file'),
        (domain(disk("<backingStore type='block'><source dev='/dev/sda'/>"
                     '<backingStore/></backingStore>')), 'not a file'),
    ])
    def test_refused(self, xml, says):
        with pytest.raises(ChainError, match=says):
            chains.find_disk(xml, VOLUME)


class TestKnownFormats:

    def test_filled_in(self):
        chain = (A, Layer('/mnt/volume-1', None))
        assert chains.with_known(chain, {'volume-1': 'raw'}) == (
            A, Layer('/mnt/volume-1', 'raw'))

    def test_a_raw_file_stays_raw(self):
        """OSSA-2014-033: a guest wrote a qcow2 header into its raw disk."""
        chain = (A, Layer('/mnt/volume-1', 'qcow2'))
        with pytest.raises(ChainError, match='volume-1 is known to be raw'):
            chains.with_known(chain, {'volume-1': 'raw'})

    def test_unknown_stays_unknown(self):
        chain = (Layer('/mnt/volume-1', None),)
        assert chains.with_known(chain, {'other': 'raw'}) == chain
        assert chains.formats(chain) == {}


class TestCreate:

    def test_overlay(self):
        plan = chains.plan_create((A, RAW), 'volume-1.b')
        assert plan.kind == 'create'
        new = Layer('/mnt/volume-1.b', 'qcow2')
        assert plan.after == (new, A, RAW)
        assert plan.changed == new
        assert plan.base == A

    def test_never_twice(self):
        plan = chains.plan_create((A, RAW), 'volume-1.a')
        assert plan.kind == 'nothing'
        assert plan.after == (A, RAW)

    def test_in_use_below(self):
        with pytest.raises(ChainError, match='in use below'):
            chains.plan_create((A, RAW), 'volume-1')

    def test_unknown_format(self):
        with pytest.raises(ChainError, match='format of volume-1'):
            chains.plan_create((Layer('/mnt/volume-1', None),), 'x')

    @pytest.mark.parametrize('name', [
        '', '.', '..', '/etc/shadow', 'nbd:host:1', 'json:{}', '../x',
        'a/b', 'a\nb', 'a\0b', 'x' * 256])
    def test_names(self, name):
        with pytest.raises(ChainError, match='bare name'):
            chains.plan_create((RAW,), name)


class TestDelete:

    @pytest.mark.parametrize(
        ('file_to_merge', 'target', 'kind', 'after', 'changed'), [
            # The three shapes that Cinder sends.
            ('volume-1.b', 'volume-1.a', 'commit', (C, A, RAW), A),
            ('volume-1.a', None, 'pull', (C, A, RAW), C),
            (None, None, 'pull', (C,), C),
            # And what they are at the ends.
            ('volume-1.a', 'volume-1', 'commit', (C, B, RAW), RAW),
            ('volume-1.c', 'volume-1.b', 'active-commit', (B, A, RAW), B),
            ('volume-1', None, 'pull', (C, RAW), C),
            ('volume-1.b', None, 'nothing', CHAIN, C),
        ])
    def test_plan(self, file_to_merge, target, kind, after, changed):
        plan = chains.plan_delete(CHAIN, file_to_merge, target)
        assert (plan.kind, plan.after, plan.changed) == (
            kind, after, changed)

    def test_flattened_already(self):
        plan = chains.plan_delete((A,), None, None)
        assert plan.kind == 'nothing'

    @pytest.mark.parametrize(('file_to_merge', 'target', 'says'), [
        ('volume-1.a', 'volume-1.b', 'not directly below'),
        ('volume-1.c', 'volume-1.a', 'not directly below'),
        ('volume-1.a', 'volume-1.a', 'not directly below'),
        ('volume-1.x', 'volume-1.a', 'volume-1.x is not in the chain'),
        ('volume-1.b', 'volume-1.x', 'volume-1.x is not in the chain'),
        ('volume-1.x', None, 'volume-1.x is not in the chain'),
        ('volume-1.c', None, 'below itself'),
        (None, 'volume-1.a', 'needs a file_to_merge'),
        ('../volume-1.b', 'volume-1.a', 'bare name'),
    ])
    def test_refused(self, file_to_merge, target, says):
        with pytest.raises(ChainError, match=says):
            chains.plan_delete(CHAIN, file_to_merge, target)

    def test_merged_before(self):
        """Gone from the chain is done only for whom we merged ourselves."""
        chain = (C, A, RAW)
        with pytest.raises(ChainError, match='not in the chain'):
            chains.plan_delete(chain, 'volume-1.b', 'volume-1.a')
        plan = chains.plan_delete(chain, 'volume-1.b', 'volume-1.a',
                                  merged_before=True)
        assert plan.kind == 'nothing'
        assert plan.changed == A

    def test_merged_before_but_back_again(self):
        plan = chains.plan_delete(CHAIN, 'volume-1.b', 'volume-1.a',
                                  merged_before=True)
        assert plan.kind == 'commit'

    def test_formats_must_be_known(self):
        with pytest.raises(ChainError, match='format of volume-1'):
            chains.plan_delete((A, Layer('/mnt/volume-1', None)), None, None)

    def test_same_name_in_two_folders(self):
        twice = (A, Layer('/else/volume-1', 'qcow2'), RAW)
        with pytest.raises(ChainError, match='2 times'):
            chains.plan_delete(twice, 'volume-1', None)


class TestVerify:

    plan = chains.plan_delete(CHAIN, 'volume-1.b', 'volume-1.a')

    def live(self, chain, **more):
        return chains.Disk('vda', chain, **{'complete': True, **more})

    def test_done(self):
        live = self.live((C, A, RAW))
        assert chains.is_done(self.plan, live)
        assert not chains.is_untouched(self.plan, live)

    def test_untouched(self):
        live = self.live(CHAIN)
        assert not chains.is_done(self.plan, live)
        assert chains.is_untouched(self.plan, live)

    @pytest.mark.parametrize('more', [
        {'complete': False}, {'job': 'active-commit'}])
    def test_not_yet(self, more):
        assert not chains.is_done(self.plan, self.live((C, A, RAW), **more))

    def test_something_else(self):
        live = self.live((B, A, RAW))
        assert not chains.is_done(self.plan, live)
        assert not chains.is_untouched(self.plan, live)

    def test_another_format(self):
        live = self.live((C, A, Layer(RAW.path, 'qcow2')))
        assert not chains.is_done(self.plan, live)


class TestChangedFormat:

    def test_from_the_live_chain(self):
        plan = chains.plan_create((RAW,), 'volume-1.a')
        assert chains.changed_format(plan, (A, RAW)) == {
            'volume-1.a': 'qcow2'}

    def test_commit_keeps_the_targets(self):
        plan = chains.plan_delete((A, RAW), 'volume-1.a', 'volume-1')
        silent = (Layer(RAW.path, None),)
        assert chains.changed_format(plan, silent) == {'volume-1': 'raw'}

    def test_pull_keeps_the_active_files(self):
        plan = chains.plan_delete((A, RAW), None, None)
        assert chains.changed_format(plan, (Layer(A.path, None),)) == {
            'volume-1.a': 'qcow2'}


def test_data_and_back():
    assert chains.from_data(chains.to_data((A, RAW))) == (
        Layer(A.path, 'qcow2'), Layer(RAW.path, 'raw'))
