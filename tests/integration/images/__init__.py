# SPDX-License-Identifier: Apache-2.0
"""Images: real stores, real guests."""
