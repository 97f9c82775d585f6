# SPDX-License-Identifier: Apache-2.0
"""The state machines, as data."""
