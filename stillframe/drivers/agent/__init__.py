# SPDX-License-Identifier: Apache-2.0
"""Snapshots by the agent in a ramdisk: ours, or ironic-python-agent.

A command is an HTTP request to the address that the agent reported in its
heartbeat; the certificate that it reported there is the only one accepted.
"""
