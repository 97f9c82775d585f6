# SPDX-License-Identifier: Apache-2.0
"""What developers run: set-up, the demonstration, measurements."""
