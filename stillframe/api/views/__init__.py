# SPDX-License-Identifier: Apache-2.0
"""How things are written on the wire: pure functions of rows."""
