# SPDX-License-Identifier: Apache-2.0
"""Schemas of the bare-metal dialect, one module a resource."""
