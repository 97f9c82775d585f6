# SPDX-License-Identifier: Apache-2.0
"""The demonstration: a running bare-metal machine becomes an image.

``make demo-baremetal`` plays it on a virtual machine that stands for bare
metal: with a BMC that speaks Redfish, a disk of its own, and no hypervisor
that anybody would ask.  The roles are kept apart: the stage (the machine
and Stillframe itself), the operator, who knows nothing but REST, and the
witness, who looks at disks from outside and believes nobody.
"""
