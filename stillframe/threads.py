# SPDX-License-Identifier: Apache-2.0
"""Choose threads before a library chooses eventlet.

oslo.service brings eventlet along, and several of the libraries import it
when it is there: a second of start-up and 20 MB in each process, for
nothing. oslo.service itself uses it unless told before that threads are
wanted. So each package that comes first in some process imports this module
in its ``__init__``; it works once.
"""

import sys

from oslo_service import backend

# A module that is None cannot be imported: "try: import eventlet" finds it
# missing.
sys.modules.setdefault('eventlet', None)  # type: ignore[arg-type]

backend.init_backend(backend.BackendType.THREADING)
