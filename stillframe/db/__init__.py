# SPDX-License-Identifier: Apache-2.0
"""The database: one module a subject; nothing of the ORM leaves it."""
