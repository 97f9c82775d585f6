# SPDX-License-Identifier: Apache-2.0
"""Drivers against emulated BMCs."""
