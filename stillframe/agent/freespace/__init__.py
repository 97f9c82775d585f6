# SPDX-License-Identifier: Apache-2.0
"""What the file systems of a disk say is free."""
