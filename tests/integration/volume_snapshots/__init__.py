# SPDX-License-Identifier: Apache-2.0
"""Volume snapshots from end to end: Cinder, Stillframe, real guests."""
