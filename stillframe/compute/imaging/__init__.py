# SPDX-License-Identifier: Apache-2.0
"""Making images of servers: a point in time, then its data to a store."""
