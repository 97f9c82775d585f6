# SPDX-License-Identifier: Apache-2.0
"""The entry for WSGI servers: ``stillframe.api.wsgi:application``.

It is made at import, once for each process of uWSGI or gunicorn. The
command line belongs to that server and is not read; the configuration is
``stillframe.conf`` and the files in ``stillframe.conf.d`` of
OS_STILLFRAME_CONFIG_DIR, or else the usual places in ``/etc/stillframe``.
OS_STILLFRAME_CONFIG_FILES (paths separated by semicolons, relative ones
below that folder) names other files.
"""

import os
from typing import Any

from stillframe import service
from stillframe.api import app
from stillframe.db import base
from stillframe.db import schema

_FOLDER = 'OS_STILLFRAME_CONFIG_DIR'
_FILES = 'OS_STILLFRAME_CONFIG_FILES'
_DEFAULT_FOLDER = '/etc/stillframe'


def arguments(environment: os._Environ[str] | dict[str, str]) -> list[str]:
    """Give what oslo.config has to read, as its own arguments.

    :param environment: variables of the process.
    """
    folder = environment.get(_FOLDER, '').strip()
    names = [name.strip() for name in
             environment.get(_FILES, '').split(';') if name.strip()]
    if not folder and not names:
        return []
    folder = folder or _DEFAULT_FOLDER
    found = [word for name in names or ['stillframe.conf']
             for word in ('--config-file', os.path.join(folder, name))]
    parts = os.path.join(folder, 'stillframe.conf.d')
    if os.path.isdir(parts):
        found += ['--config-dir', parts]
    return found


def make_application() -> Any:
    """Read the configuration and build the application.

    :raises ConfigError: the database has another schema.
    """
    conf = service.prepare(arguments(os.environ), prog='stillframe-api')
    base.configure(conf)
    schema.check()
    # Where the server forks after this, no two processes may share one.
    base.disconnect()
    return app.build_app(conf)


application = make_application()
