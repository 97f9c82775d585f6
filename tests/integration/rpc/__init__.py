# SPDX-License-Identifier: Apache-2.0
"""Tests of RPC over a real RabbitMQ."""
