# SPDX-License-Identifier: Apache-2.0
"""What requests must look like: one module a resource."""
