# SPDX-License-Identifier: Apache-2.0
"""Bare-metal nodes: provisioning, power, and snapshots.

A node is worked on by the conductor whose name is its reservation; every
write says so in its condition. What a conductor leaves behind when it is
killed at any point can be read from the rows of the node and of its
snapshot, and :mod:`stillframe.conductor.baremetal.recovery` reads it.
"""
