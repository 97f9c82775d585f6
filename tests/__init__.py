# SPDX-License-Identifier: Apache-2.0
"""The tests.

They choose threads as our processes do, before one of them imports a
library that would choose otherwise.
"""

from stillframe import threads  # noqa: F401
