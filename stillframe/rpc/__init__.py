# SPDX-License-Identifier: Apache-2.0
"""RPC between the processes."""

from stillframe import threads  # noqa: F401
