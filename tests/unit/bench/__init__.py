# SPDX-License-Identifier: Apache-2.0
"""The pure parts of the benchmark."""
