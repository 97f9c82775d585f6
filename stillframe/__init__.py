# SPDX-License-Identifier: Apache-2.0
"""Stillframe: snapshots that can be trusted."""
