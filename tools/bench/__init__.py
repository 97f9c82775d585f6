# SPDX-License-Identifier: Apache-2.0
"""Measurements on real guests, brokers and databases: ``make bench``.

Its programs choose threads as our processes do, before one of them imports
a library that would choose otherwise.
"""

from stillframe import threads  # noqa: F401
