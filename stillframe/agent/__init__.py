# SPDX-License-Identifier: Apache-2.0
"""What runs in the ramdisk of a bare-metal node.

Imports nothing but itself, :mod:`stillframe.qcow2` and the standard
library.
"""

VERSION = '0.1.0'
