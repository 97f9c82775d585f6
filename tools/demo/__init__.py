# SPDX-License-Identifier: Apache-2.0
"""The demonstration: three servers that never stop writing, one copy.

``make demo`` plays the main job on real machines.  The roles are kept
apart: the stage (hypervisor, guests, Stillframe itself), the DR software,
which knows nothing but REST, and the witness, who looks at the disks from
outside and believes nobody.
"""
