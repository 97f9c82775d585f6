# SPDX-License-Identifier: Apache-2.0

from stillframe import threads  # noqa: F401
