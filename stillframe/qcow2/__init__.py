# SPDX-License-Identifier: Apache-2.0
"""The qcow2 format: reading headers strictly, writing images in order.

Imports nothing but the standard library, so that it can be used inside a
ramdisk too.
"""
