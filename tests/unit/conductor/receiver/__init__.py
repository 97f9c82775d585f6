# SPDX-License-Identifier: Apache-2.0
"""Tests of the receiver that need no network."""
