# SPDX-License-Identifier: Apache-2.0
"""Which version this agent is.

Sent in each heartbeat. A ramdisk that was made by copying the sources has
no package metadata to ask; a test compares the two.
"""

VERSION = '0.1.0'
