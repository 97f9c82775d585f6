# SPDX-License-Identifier: Apache-2.0
"""What is said to libvirt and to the agents of its guests."""
