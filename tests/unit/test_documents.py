# SPDX-License-Identifier: Apache-2.0
"""What the documents say of the configuration and of other files is true."""

import pathlib
import re

import pytest

from stillframe.conf import opts

TOP = pathlib.Path(__file__).parents[2]
DOCUMENTS = [TOP / 'README.rst', *sorted((TOP / 'doc/source').glob('*.rst'))]
OPTIONS = {group: {option.dest for option in options}
           for group, options in opts.list_opts()}
#: Options of libraries: [keystone_authtoken], the session of [glance], ...
OF_LIBRARIES = {
    'DEFAULT': {'transport_url'},
    'database': {'connection'},
    'keystone_authtoken': {
        'auth_type', 'auth_url', 'www_authenticate_uri', 'username',
        'password', 'project_name', 'user_domain_id', 'project_domain_id'}}

documents = pytest.mark.parametrize(
    'document', DOCUMENTS, ids=[path.name for path in DOCUMENTS])


def known(group):
    return OPTIONS.get(group, set()) | OF_LIBRARIES.get(group, set())


def settings(text):
    """The lines of the text that look like a configuration.

    :return: group, name and value of each.
    """
    group = None
    for line in text.splitlines():
        if header := re.fullmatch(r'\s+\[(\w+)\]', line):
            group = header[1]
        elif not line.strip():
            group = None
        elif group and (found := re.fullmatch(r'\s+(\w+) = (.*)', line)):
            yield group, *found.groups()


@documents
def test_a_configuration_can_be_pasted(document):
    for group, name, value in settings(document.read_text()):
        assert name in known(group), f'[{group}]{name}'
        # What follows a value in its line belongs to it.
        assert '#' not in value, f'[{group}]{name}'


@documents
def test_options_that_are_named_are_there(document):
    for group, name in re.findall(r'``\[(\w+)\](\w+)``',
                                  document.read_text()):
        assert name in known(group), f'[{group}]{name}'


@documents
def test_files_that_are_named_are_there(document):
    for name in re.findall(r'``((?:etc|doc|tests|tools|stillframe)/[\w./-]+'
                           r'|[\w-]+\.rst)``', document.read_text()):
        assert any((folder / name).exists()
                   for folder in (TOP, TOP / 'doc/source')), name


def test_there_is_something_to_read():
    text = (TOP / 'doc/source/receiver.rst').read_text()
    assert ('receiver', 'host', '192.0.2.10') in settings(text)
    assert '``[receiver]min_free``' in text
