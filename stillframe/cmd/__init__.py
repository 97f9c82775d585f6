# SPDX-License-Identifier: Apache-2.0
"""Entry points: one module a command."""

from stillframe import threads  # noqa: F401
