# SPDX-License-Identifier: Apache-2.0
"""The conductor: takes reports, and reaps what got stuck."""

from stillframe import threads  # noqa: F401
