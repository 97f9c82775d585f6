# SPDX-License-Identifier: Apache-2.0
"""All processes apart, as in production, and what can befall them."""
