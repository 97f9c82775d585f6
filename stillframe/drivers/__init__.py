# SPDX-License-Identifier: Apache-2.0
"""Drivers: what is asked of a bare-metal machine, and who does it.

A hardware type names the interfaces that can be combined on a node; each
interface (power, management, boot, snapshot) does one kind of work. Both are
found by entry point and enabled by configuration; see
:mod:`stillframe.drivers.factory`. Nothing here touches the database.
"""
