# SPDX-License-Identifier: Apache-2.0
"""Commands for the openstack client; it is needed for nothing else."""
