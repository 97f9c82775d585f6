# SPDX-License-Identifier: Apache-2.0
"""Reading a disk that another process exports by the NBD protocol.

Only what reading a frozen point in time takes, over a UNIX socket. The
numbers are those of the protocol's doc/proto.md.
"""
