# SPDX-License-Identifier: Apache-2.0
"""What outlives an agent, but not a boot."""

import stat

import pytest

from stillframe.agent import keepsake


def test_a_second_agent_finds_it(tmp_path):
    folder = tmp_path / 'a' / 'b'
    first = keepsake.Keepsake(folder)
    assert first.token('node') is None
    first.keep_token('node', 'secret')
    made = first.certificate('node', '192.0.2.1', 1e9)
    second = keepsake.Keepsake(folder)
    assert second.token('node') == 'secret'
    assert second.certificate('node', '192.0.2.1', 2e9) == made


def test_another_token_leaves_the_certificate(tmp_path):
    kept = keepsake.Keepsake(tmp_path / 'a')
    kept.keep_token('node', 'secret')
    made = kept.certificate('node', '192.0.2.1', 1e9)
    kept.keep_token('node', 'other')
    assert kept.token('node') == 'other'
    assert kept.certificate('node', '192.0.2.1', 1e9) == made


def test_another_address_needs_another_certificate(tmp_path):
    kept = keepsake.Keepsake(tmp_path / 'a')
    kept.keep_token('node', 'secret')
    made = kept.certificate('node', '192.0.2.1', 1e9)
    assert kept.certificate('node', '192.0.2.2', 1e9) != made
    assert kept.token('node') == 'secret'


def test_another_node_has_nothing_of_it(tmp_path):
    kept = keepsake.Keepsake(tmp_path / 'a')
    kept.keep_token('node', 'secret')
    made = kept.certificate('node', '192.0.2.1', 1e9)
    assert kept.token('other') is None
    kept.keep_token('other', 'its own')
    assert kept.token('node') is None
    assert kept.certificate('other', '192.0.2.1', 1e9) != made


def test_nobody_else_may_look(tmp_path):
    kept = keepsake.Keepsake(tmp_path / 'a')
    kept.keep_token('node', 'secret')
    for path in (kept.folder, *kept.folder.iterdir()):
        assert not stat.S_IMODE(path.stat().st_mode) & 0o077
    kept.folder.chmod(0o710)
    with pytest.raises(keepsake.Unsafe, match='nobody else'):
        keepsake.Keepsake(kept.folder)


def test_a_link_is_no_folder(tmp_path):
    (tmp_path / 'real').mkdir(mode=0o700)
    (tmp_path / 'link').symlink_to(tmp_path / 'real')
    with pytest.raises(keepsake.Unsafe):
        keepsake.Keepsake(tmp_path / 'link')


@pytest.mark.parametrize('text', ['', '{', '[]', '"x"'])
def test_a_torn_file_is_as_none(tmp_path, text):
    kept = keepsake.Keepsake(tmp_path / 'a')
    (kept.folder / 'agent.json').write_text(text)
    assert kept.token('node') is None
    kept.keep_token('node', 'secret')
    assert kept.token('node') == 'secret'
