# SPDX-License-Identifier: Apache-2.0
"""The compute worker on real guests, without API and database."""
