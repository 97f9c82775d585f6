# SPDX-License-Identifier: Apache-2.0
"""Who answers which request: one module a resource."""
