# SPDX-License-Identifier: Apache-2.0
"""Gateways to other services: one module each."""
