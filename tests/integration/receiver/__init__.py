# SPDX-License-Identifier: Apache-2.0
"""The receiver on real sockets, disks, mounts and image stores."""
