# SPDX-License-Identifier: Apache-2.0
"""The compute worker: freezes guests, and sees that none stays frozen."""
