# SPDX-License-Identifier: Apache-2.0
"""Tests on real guests and real services."""
