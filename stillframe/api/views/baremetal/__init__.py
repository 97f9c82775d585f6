# SPDX-License-Identifier: Apache-2.0
"""Views of the bare-metal dialect, one module a resource."""
